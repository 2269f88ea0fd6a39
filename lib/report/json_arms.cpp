// Both arms: phases, stages, traffic, verdicts; and one arm over the other.
#include "report/json_parts.hpp"
#include "report/json_values.hpp"

namespace refit::report {
namespace {

OrderedJson phase_json(const PhaseFigures& phase) {
  const auto& summary = phase.summary;
  return {{"source", std::string(name_of(phase.source))},
          {"samples_s", numbers(phase.samples)},
          {"median_s", summary ? number(summary->median) : nullptr},
          {"mean_s", summary ? number(summary->mean) : nullptr},
          {"min_s", summary ? number(summary->min) : nullptr},
          {"max_s", summary ? number(summary->max) : nullptr},
          {"spread", summary ? number(summary->spread) : nullptr},
          {"floor_bytes", phase.summary ? OrderedJson(phase.floor_bytes) : OrderedJson(nullptr)},
          {"link_bytes", phase.summary ? OrderedJson(phase.link_bytes) : OrderedJson(nullptr)},
          {"floor_s", phase.summary ? optional(phase.floor) : OrderedJson(nullptr)},
          {"x_floor", optional(phase.x_floor)},
          {"x_direct_floor", optional(phase.x_direct_floor)},
          {"x_own_floor", optional(phase.x_own_floor)},
          {"extrapolated_s", optional(phase.extrapolated)},
          {"published_s", optional(phase.published)},
          {"published_source", known(phase.published_source)}};
}

OrderedJson stage_json(const StageFigures& stage) {
  return {{"role", run::name_of(stage.samples->role)},
          {"samples_s", numbers(stage.samples->seconds)},
          {"median_s", stage.samples->seconds.empty() ? OrderedJson(nullptr) : number(stage.summary.median)},
          {"device_s", optional(stage.samples->device_seconds)},
          {"bytes", stage.samples->bytes},
          {"launches", stage.samples->launches},
          {"x_floor", optional(stage.x_floor)}};
}

OrderedJson role_json(const RoleFigures& role) {
  return {{"samples_s", numbers(role.time->unattributed)},
          {"wall_s", numbers(role.time->wall)},
          {"median_s", optional(role.median)},
          {"share", optional(role.share)}};
}

OrderedJson memory_json(const std::vector<run::MemoryPoint>& points) {
  OrderedJson json = OrderedJson::array();
  for (const run::MemoryPoint& point : points) {
    json.push_back(OrderedJson::array({number(point.seconds), point.bytes}));
  }
  return json;
}

OrderedJson memory_timeline_json(const run::ArmResult& arm) {
  if (arm.trainer.memory.empty() && arm.generator.memory.empty()) return nullptr;
  return {{"trainer", memory_json(arm.trainer.memory)}, {"generator", memory_json(arm.generator.memory)}};
}

/// `measured` is null unless the bench ran to the end.
OrderedJson arm_json(const Report& report, const plan::Switches& switches,
                     const scenario::ArmAmounts& planned, const ArmFigures& figures,
                     const run::ArmResult* measured, const std::vector<double>* warmup) {
  OrderedJson json = {{"switches", switches_json(switches)},
                      {"inapplicable", inapplicable(report, switches)}};
  json["wire_bytes"] = measured != nullptr ? measured->wire_bytes : planned.wire_bytes;
  json["buckets"] = measured != nullptr ? measured->buckets : planned.buckets;
  OrderedJson phases = OrderedJson::object();
  for (const auto& [key, phase] : figures.phases) phases[key] = phase_json(phase);
  json["phases"] = std::move(phases);
  if (measured == nullptr) return json;

  OrderedJson stages = OrderedJson::object();
  for (const StageFigures& stage : figures.stages) stages[stage.key] = stage_json(stage);
  json["stages"] = std::move(stages);
  json["unattributed_s"] = {{"trainer", role_json(figures.trainer)},
                            {"generator", role_json(figures.generator)}};
  json["warmup_s"] = numbers(*warmup);
  json["messages"] = measured->messages;
  json["message_bytes"] = measured->message_bytes;
  json["handles_opened"] = measured->handles_opened;
  json["handles_left_open"] = measured->handles_left;
  json["peak_extra_bytes"] = measured->peak_extra_bytes;
  json["memory_timeline"] = memory_timeline_json(*measured);
  json["verified_refits"] = measured->verified_refits;
  const bool verified = measured->verified_refits > 0;
  json["verify_s"] = verified ? number(measured->verify_seconds) : OrderedJson(nullptr);
  json["verify"] = verified ? verify_json(measured->verdict) : OrderedJson(nullptr);
  return json;
}

}  // namespace

OrderedJson verify_json(const verify::Verdict& verdict) {
  OrderedJson json = OrderedJson::object();
  for (const verify::Check check : verify::kChecks) {
    const verify::Result& result = verdict[check];
    OrderedJson findings = OrderedJson::array();
    for (const verify::Finding& finding : result.findings) {
      findings.push_back({{"tensor", finding.tensor},
                          {"index", finding.index},
                          {"expected", finding.expected},
                          {"got", finding.got},
                          {"count", finding.count},
                          {"what", finding.what}});
    }
    json[std::string(verify::name_of(check))] = {
        {"bytes", result.bytes}, {"mismatches", result.mismatches}, {"findings", std::move(findings)}};
  }
  return json;
}

OrderedJson arms_json(const Report& report, const Figures& figures) {
  const scenario::Replay& replay = *report.replay;
  const run::BenchResult* result = report.result ? &*report.result : nullptr;
  return {{"control", arm_json(report, replay.spec.control, replay.part.control, figures.control,
                               result == nullptr ? nullptr : &result->control,
                               result == nullptr ? nullptr : &result->warmup_control)},
          {"treatment", arm_json(report, replay.spec.treatment, replay.part.treatment, figures.treatment,
                                 result == nullptr ? nullptr : &result->treatment,
                                 result == nullptr ? nullptr : &result->warmup_treatment)}};
}

OrderedJson comparison_json(const Figures& figures) {
  OrderedJson json = OrderedJson::object();
  for (const auto& [key, row] : figures.comparison) {
    json[key] = {{"source", std::string(name_of(row.source))},
                 {"control_s", optional(row.control)},
                 {"treatment_s", optional(row.treatment)},
                 {"change", optional(row.change)},
                 {"ratio", optional(row.ratio)},
                 {"ci95", row.ci95 ? OrderedJson::array({number(row.ci95->low), number(row.ci95->high)})
                                   : OrderedJson(nullptr)}};
  }
  return json;
}

}  // namespace refit::report
