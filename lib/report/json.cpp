// The report as JSON, schema refit-bench/1 (scenarios/schema/refit-bench-1.schema.json).
#include "base/json.hpp"

#include <cmath>

#include "refit/report/report.hpp"
#include "report/figures.hpp"

namespace refit::report {
namespace {

OrderedJson number(double value) {
  return std::isfinite(value) ? OrderedJson(value) : OrderedJson(nullptr);
}

template <class Value>
OrderedJson optional(const std::optional<Value>& value) {
  if constexpr (std::is_same_v<Value, double>) return value ? number(*value) : OrderedJson(nullptr);
  return value ? OrderedJson(*value) : OrderedJson(nullptr);
}

/// Empty text means that it is not known.
OrderedJson known(const std::string& text) {
  return text.empty() ? OrderedJson(nullptr) : OrderedJson(text);
}

OrderedJson numbers(const std::vector<double>& values) {
  OrderedJson array = OrderedJson::array();
  for (const double value : values) array.push_back(number(value));
  return array;
}

OrderedJson parallelism(const scenario::Parallelism& side) {
  return {{"nodes", optional(side.nodes)},
          {"gpus", optional(side.gpus)},
          {"tensor_parallel", optional(side.tensor_parallel)},
          {"pipeline_parallel", optional(side.pipeline_parallel)},
          {"expert_parallel", optional(side.expert_parallel)}};
}

OrderedJson scenario_json(const scenario::Scenario& scenario) {
  return {{"name", scenario.name},
          {"title", scenario.title},
          {"description", known(scenario.description)},
          {"digest", scenario.digest},
          {"platform", known(scenario.platform)},
          {"notes", scenario.notes},
          {"trainer", parallelism(scenario.trainer)},
          {"generator", parallelism(scenario.generator)},
          {"host_traffic_assumption", known(scenario.host_traffic_assumption)}};
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
  json["memory_budget_bytes"] = replay.memory_budget;
  json["buffer_size_scaled"] = replay.buffers_scaled;
  json["extrapolation"] = number(replay.extrapolation());
  json["host_traffic"] = {{"offload_full_bytes", replay.spec.host_traffic.offload_full_bytes},
                          {"offload_slim_bytes", replay.spec.host_traffic.offload_slim_bytes},
                          {"reference_swap_bytes", replay.spec.host_traffic.reference_swap_bytes}};
  return json;
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

OrderedJson settings_json(const run::BenchSpec& spec) {
  return {{"recipe", std::string(model::name_of(spec.recipe.kind))},
          {"ignore", spec.recipe.ignore},
          {"moe_layout", std::string(plan::name_of(spec.moe_layout))},
          {"steps", spec.steps},
          {"warmup", spec.warmup},
          {"time_budget_s", number(spec.time_budget_s)},
          {"timeout_s", number(spec.timeout_s)},
          {"seed", spec.seed},
          {"threads", spec.threads},
          {"verify", verify_name(spec.verify)}};
}

OrderedJson switches_json(const plan::Switches& switches) {
  OrderedJson json = OrderedJson::object();
  for (const auto& [name, value] : plan::to_pairs(switches)) json[name] = value;
  json["buffer_size"] = switches.buffer_size;
  return json;
}

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
          {"x_floor", optional(phase.x_floor)},
          {"x_direct_floor", optional(phase.x_direct_floor)},
          {"extrapolated_s", optional(phase.extrapolated)},
          {"published_s", optional(phase.published)},
          {"published_source", known(phase.published_source)}};
}

OrderedJson stage_json(const StageFigures& stage) {
  return {{"role", run::name_of(stage.samples->role)},
          {"samples_s", numbers(stage.samples->seconds)},
          {"median_s", stage.samples->seconds.empty() ? OrderedJson(nullptr) : number(stage.summary.median)},
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

/// `measured` is null unless the bench ran to the end.
OrderedJson arm_json(const plan::Switches& switches, const scenario::ArmAmounts& planned,
                     const ArmFigures& figures, const run::ArmResult* measured,
                     const std::vector<double>* warmup) {
  OrderedJson json = {{"switches", switches_json(switches)}, {"inapplicable", plan::inapplicable(switches)}};
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
  json["peak_extra_bytes"] = measured->peak_extra_bytes;
  json["verified_refits"] = measured->verified_refits;
  json["verify"] = measured->verified_refits == 0 ? OrderedJson(nullptr) : verify_json(measured->verdict);
  return json;
}

OrderedJson arms_json(const Report& report, const Figures& figures) {
  const scenario::Replay& replay = *report.replay;
  const run::BenchResult* result = report.result ? &*report.result : nullptr;
  return {{"control", arm_json(replay.spec.control, replay.part.control, figures.control,
                               result == nullptr ? nullptr : &result->control,
                               result == nullptr ? nullptr : &result->warmup_control)},
          {"treatment", arm_json(replay.spec.treatment, replay.part.treatment, figures.treatment,
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

OrderedJson copy_json(const run::CopyBandwidth& copy) {
  if (copy.bytes_per_second <= 0) return nullptr;
  return {{"bytes_per_second", number(copy.bytes_per_second)},
          {"samples", numbers(copy.samples)},
          {"array_bytes", copy.array_bytes},
          {"threads", copy.threads}};
}

OrderedJson environment_json(const Environment& environment) {
  return {{"version", environment.build.version},
          {"compiler", environment.build.compiler},
          {"build_type", environment.build.build_type},
          {"git_commit", optional(environment.build.git_commit)},
          {"git_dirty", optional(environment.build.git_dirty)},
          {"cpu_model", known(environment.cpu_model)},
          {"logical_cpus", environment.logical_cpus},
          {"usable_cpus", environment.usable_cpus},
          {"memory_total_bytes", environment.memory_total_bytes},
          {"kernel", known(environment.kernel)},
          {"argv", environment.argv},
          {"date_utc", environment.date_utc}};
}

}  // namespace

std::string to_json(const Report& report) {
  const Figures figures = derive(report);
  OrderedJson json = {{"schema", "refit-bench/1"}, {"status", name_of(report.status)}};
  if (report.status == Status::refused) json["refused"] = report.message;
  if (report.status == Status::failed) json["error"] = report.message;
  json["scenario"] = scenario_json(report.scenario);
  json["model"] = model_json(report);
  json["replayed"] = report.replay ? replayed_json(*report.replay) : OrderedJson(nullptr);
  json["settings"] = report.replay ? settings_json(report.replay->spec) : OrderedJson(nullptr);
  json["arms"] = report.replay ? arms_json(report, figures) : OrderedJson(nullptr);
  json["comparison"] = comparison_json(figures);
  json["copy_bandwidth"] = report.result ? copy_json(report.result->copy) : OrderedJson(nullptr);
  json["run"] = report.result ? OrderedJson{{"measured_steps", report.result->steps},
                                            {"warmup_steps", report.result->warmup},
                                            {"stopped_early", report.result->stopped_early},
                                            {"seconds", number(report.result->seconds)}}
                              : OrderedJson(nullptr);
  json["environment"] = environment_json(report.environment);
  // Names come from files of users: bytes that are no UTF-8 become U+FFFD.
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace refit::report
