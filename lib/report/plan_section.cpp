// The whole model beside the part that would be replayed.
#include <fmt/format.h>

#include "refit/base/bytes.hpp"
#include "report/sections.hpp"

namespace refit::report {
namespace {

std::string amount_row(const std::string& name, const std::string& whole, const std::string& part) {
  return fmt::format("  {:<38}{:>26} {:>26}\n", name, whole, part);
}

}  // namespace

std::string plan_section(const Report& report) {
  const scenario::Replay& replay = *report.replay;
  const bool ranks = on_ranks(report);
  const scenario::Amounts& whole = replay.whole;
  const scenario::Amounts& part = replay.part;
  const auto count = [&](const char* name, std::uint64_t scenario::Amounts::*member) {
    return amount_row(name, fmt::format("{}", whole.*member), fmt::format("{}", part.*member));
  };
  const bool gpu = replay.spec.backend.kind == device::Kind::cuda;
  const auto arm = [&](const char* name, std::uint64_t scenario::ArmAmounts::*member) {
    return amount_row(name, fmt::format("{} / {}", whole.control.*member, whole.treatment.*member),
                      fmt::format("{} / {}", part.control.*member, part.treatment.*member));
  };
  return amount_row("", "whole model", "replayed") + count("layers", &scenario::Amounts::layers) +
         count("routed experts of a layer", &scenario::Amounts::experts) +
         count("tensors", &scenario::Amounts::tensors) +
         count("  quantized", &scenario::Amounts::quantized_tensors) +
         count("parameters", &scenario::Amounts::parameters) + count("bytes", &scenario::Amounts::bytes) +
         count("  routed experts", &scenario::Amounts::expert_bytes) +
         count("engine's bytes", &scenario::Amounts::destination_bytes) +
         amount_row("floor: read once, written once", fmt::format("{}", whole.floor_bytes()),
                    fmt::format("{}", part.floor_bytes())) +
         arm(ranks ? "bytes between ranks, off / on" : "bytes on the wire, off / on",
             &scenario::ArmAmounts::wire_bytes) +
         arm(ranks ? "boxes, off / on" : "keys, off / on", &scenario::ArmAmounts::keys) +
         arm(ranks ? "rounds, off / on" : "buckets, off / on", &scenario::ArmAmounts::buckets) +
         count(ranks ? (gpu ? "GPU memory of ranks that share it" : "memory of ranks that share it")
                     : (gpu ? "GPU memory of both processes" : "memory of both processes"),
               &scenario::Amounts::memory_needed) +
         fmt::format("  memory budget {}\n", replay.memory_budget == kNoBudget
                                                 ? "none: there is no GPU here that sets one"
                                                 : format_bytes(replay.memory_budget));
}

}  // namespace refit::report
