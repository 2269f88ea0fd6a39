// A made-up report with round numbers, and ways to look at one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>

#include "base/json.hpp"
#include "refit/report/report.hpp"
#include "support/catch.hpp"

namespace refit::test {

using report::Report;

inline constexpr const char* kTotal = "prepare_for_generation/total";
inline constexpr const char* kTransfer = "prepare_for_generation/transfer_and_update_weights";
inline constexpr const char* kOffload = "prepare_for_generation/offload_before_refit";
inline constexpr const char* kSwap = "policy_and_reference_logprobs/reference_swap";
inline constexpr std::uint64_t kSourceBytes = 600, kDestinationBytes = 400;

/// A bench of three steps with round numbers, on a machine that copies 1000 bytes a second.
inline run::BenchResult bench_result(const scenario::Replay& replay) {
  run::BenchResult result;
  const auto fill = [](run::ArmResult& arm, double scale) {
    arm.phases[kTransfer] = {{2 * scale, 4 * scale, 3 * scale}, kSourceBytes + kDestinationBytes, false};
    arm.phases[kOffload] = {{1 * scale, 1 * scale, 1 * scale}, 0, true};
    arm.phases[kSwap] = {{1, 2, 3}, 0, true};
    arm.phases[kTotal] = {{3 * scale, 5 * scale, 4 * scale}, 0, false};
    arm.stages = {{"pack", run::Role::trainer, {0.5, 0.5, 1.5}, 500, 7},
                  {"wait", run::Role::trainer, {1, 1, 1}, 0, 0},
                  {"load", run::Role::generator, {0.25, 0.5, 0.75}, 250, 3},
                  {"wait", run::Role::generator, {2, 2, 2}, 0, 0}};
    arm.trainer = {{2, 2, 4}, {0.02, 0.02, 0.04}};
    arm.generator = {{2, 2, 4}, {0, 0, 0.01}};
    arm.wire_bytes = 600;
    arm.message_bytes = 77;
    arm.messages = 9;
    arm.buckets = 4;
    arm.handles_opened = 5;
    arm.handles_left = 2;
    arm.peak_extra_bytes = 1234;
    arm.verified_refits = 1;
    arm.verify_seconds = 0.75;
    for (const verify::Check check : verify::kChecks) arm.verdict[check].bytes = 1000;
  };
  fill(result.control, 1);
  fill(result.treatment, 0.5);
  result.control.switches = replay.spec.control;
  result.treatment.switches = replay.spec.treatment;
  result.warmup = 2;
  result.steps = 3;
  result.warmup_control = {9, 8};
  result.warmup_treatment = {7, 6};
  result.copy = {1000, {990, 1000, 1010}, 1 << 20, 2};
  result.source_bytes = kSourceBytes;
  result.destination_bytes = kDestinationBytes;
  result.seconds = 42;
  return result;
}

/// qwen3-30b, of which a part with a quarter of the floor is replayed.
inline Report sample() {
  Report report;
  scenario::Scenario& scenario = report.scenario;
  scenario.name = "sample";
  scenario.title = "A sample";
  scenario.digest = "0123456789abcdef";
  scenario.phases[kTransfer] = {9.67, 2.98, "PR 3294"};
  scenario.phases["generation"] = {49.8, 51.8, "PR 3294"};
  scenario.phases["policy_training"] = {91.0, std::nullopt, "PR 3294"};
  report.model.architecture = "Qwen3MoeForCausalLM";
  report.model.dims.layers = 8;
  report.model.tensors = {{{"a", {32, 64}, DType::bf16}, model::Kind::expert_up, 0, 0},
                          {{"b", {64}, DType::f32}, model::Kind::norm, 0, -1}};
  report.model.mtp = {{{"c", {64}, DType::bf16}, model::Kind::mtp_other, 8, -1}};
  scenario::Replay& replay = report.replay.emplace();
  replay.sentence = "sample: replays 2 of 8 layers";
  replay.spec.slice.layers = 2;
  replay.spec.treatment = plan::published_treatment();
  replay.spec.host_traffic = {80, 40, 20};
  replay.memory_budget = 1 << 30;
  replay.part.bytes = 1000;
  replay.whole.bytes = 4000;
  replay.part.source_bytes = kSourceBytes;
  replay.part.destination_bytes = kDestinationBytes;
  replay.whole.source_bytes = 4 * kSourceBytes;
  replay.whole.destination_bytes = 4 * kDestinationBytes;
  replay.part.control.wire_bytes = 600;
  replay.whole.control.wire_bytes = 2400;
  report.result = bench_result(replay);
  report.environment.build = {"0.1.0", "g++ 12", "Release", std::string(40, 'a'), true};
  report.environment.argv = {"refit-bench", "--scenario", "sample"};
  report.environment.usable_cpus = 2;
  report.environment.date_utc = "2026-01-31T12:00:00Z";
  return report;
}

inline Json json_of(const Report& report) {
  return parse_json(to_json(report), "report");
}

inline bool contains(const std::string& text, const std::string& part) {
  CAPTURE(text, part);
  return text.find(part) != text.npos;
}

inline std::size_t widest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t widest = 0;
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, line.size());
  return widest;
}

}  // namespace refit::test
