// Scenario, model, the part of it that is replayed, and settings.
#include "refit/device/backend.hpp"
#include "report/json_parts.hpp"
#include "report/json_values.hpp"

namespace refit::report {
namespace {

OrderedJson parallelism(const scenario::Parallelism& side) {
  return {{"nodes", optional(side.nodes)},
          {"gpus", optional(side.gpus)},
          {"tensor_parallel", optional(side.tensor_parallel)},
          {"pipeline_parallel", optional(side.pipeline_parallel)},
          {"expert_parallel", optional(side.expert_parallel)}};
}

/// One number for each arm.
OrderedJson both(const scenario::Amounts& amounts, std::uint64_t scenario::ArmAmounts::*member) {
  return {{"control", amounts.control.*member}, {"treatment", amounts.treatment.*member}};
}

void add_amounts(OrderedJson& json, const scenario::Amounts& amounts) {
  json["quantized_tensors"] = amounts.quantized_tensors;
  json["source_bytes"] = amounts.source_bytes;
  json["destination_bytes"] = amounts.destination_bytes;
  json["floor_bytes"] = amounts.floor_bytes();
  json["wire_bytes"] = both(amounts, &scenario::ArmAmounts::wire_bytes);
  json["keys"] = both(amounts, &scenario::ArmAmounts::keys);
  json["buckets"] = both(amounts, &scenario::ArmAmounts::buckets);
  json["memory_needed_bytes"] = amounts.memory_needed;
}

const char* verify_name(run::VerifyWhen when) {
  switch (when) {
    case run::VerifyWhen::off:
      return "off";
    case run::VerifyWhen::first:
      return "first";
    case run::VerifyWhen::every:
      return "every";
  }
  return "off";
}

}  // namespace

OrderedJson scenario_json(const scenario::Scenario& scenario) {
  return {{"name", scenario.name},
          {"title", scenario.title},
          {"description", known(scenario.description)},
          {"digest", scenario.digest},
          {"platform", known(scenario.platform)},
          {"notes", scenario.notes},
          {"trainer", parallelism(scenario.trainer)},
          {"generator", parallelism(scenario.generator)},
          {"ranks", scenario.ranks ? scenario_ranks_json(*scenario.ranks) : OrderedJson(nullptr)},
          {"host_traffic_assumption", known(scenario.host_traffic_assumption)}};
}

OrderedJson model_json(const Report& report) {
  const model::Inventory& model = report.model;
  OrderedJson json = {{"architecture", model.architecture},
                      {"layers", model.dims.layers},
                      {"experts", model.dims.experts},
                      {"vocab_rows", model.dims.vocab},
                      {"tensors", model.tensors.size()},
                      {"parameters", model.parameters()},
                      {"bytes", model.bytes()},
                      {"expert_bytes", model.expert_bytes()},
                      {"mtp_tensors", model.mtp.size()}};
  if (report.replay) add_amounts(json, report.replay->whole);
  return json;
}

OrderedJson replayed_json(const scenario::Replay& replay) {
  const scenario::Amounts& part = replay.part;
  OrderedJson json = {{"description", replay.sentence},
                      {"whole_model", !replay.cut()},
                      {"fraction", number(replay.fraction())},
                      {"layers", part.layers},
                      {"experts", part.experts},
                      {"vocab_rows", part.vocab_rows},
                      {"tensors", part.tensors},
                      {"parameters", part.parameters},
                      {"bytes", part.bytes},
                      {"expert_bytes", part.expert_bytes}};
  add_amounts(json, part);
  json["memory_budget_bytes"] =
      replay.memory_budget == kNoBudget ? OrderedJson(nullptr) : OrderedJson(replay.memory_budget);
  json["buffer_size_scaled"] = replay.buffers_scaled;
  json["extrapolation"] = number(replay.extrapolation());
  json["host_traffic"] = {{"offload_full_bytes", replay.spec.host_traffic.offload_full_bytes},
                          {"offload_slim_bytes", replay.spec.host_traffic.offload_slim_bytes},
                          {"reference_swap_bytes", replay.spec.host_traffic.reference_swap_bytes}};
  return json;
}

OrderedJson settings_json(const Report& report) {
  const run::BenchSpec& spec = report.replay->spec;
  return {{"recipe", std::string(model::name_of(spec.recipe.kind))},
          {"ignore", spec.recipe.ignore},
          {"moe_layout", std::string(plan::name_of(spec.moe_layout))},
          {"steps", spec.steps},
          {"warmup", spec.warmup},
          {"time_budget_s", number(spec.time_budget_s)},
          {"timeout_s", number(spec.timeout_s)},
          {"seed", spec.seed},
          {"checkpoint", known(spec.checkpoint)},
          {"backend", std::string(device::name_of(spec.backend.kind))},
          {"transport", on_ranks(report) ? OrderedJson(nullptr)
                                         : OrderedJson(std::string(device::name_of(spec.backend.transport)))},
          {"threads", spec.backend.threads},
          {"verify", verify_name(spec.verify)}};
}

OrderedJson switches_json(const plan::Switches& switches) {
  OrderedJson json = OrderedJson::object();
  for (const auto& [name, value] : plan::to_pairs(switches)) json[name] = value;
  json["buffer_size"] = switches.buffer_size;
  return json;
}

}  // namespace refit::report
