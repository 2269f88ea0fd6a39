// refit-plan: who sends what to whom between many trainer and generator ranks, and the least it costs.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/cli.hpp"
#include "common/output_file.hpp"
#include "options.hpp"
#include "plan_text.hpp"
#include "refit/base/error.hpp"
#include "refit/base/printable.hpp"
#include "refit/project/what_if.hpp"
#include "refit/reshard/report.hpp"
#include "sides.hpp"

namespace refit::apps {
namespace {

/// A round that is smaller than this has more transfers than anybody wants to plan.
constexpr std::uint64_t kSmallestRound = 1u << 20;

/// `rank` where a side has it.
std::optional<std::uint32_t> rank_of(std::optional<std::uint32_t> rank, const reshard::Layout& layout) {
  return rank && *rank < layout.ranks() ? rank : std::nullopt;
}

std::uint32_t find_tensor(const model::Inventory& model, const std::string& name) {
  const auto& tensors = model.tensors;
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const model::Tensor& tensor) { return tensor.spec.name == name; });
  if (found == tensors.end()) {
    fail_input(fmt::format("--explain: the model has no tensor {}; the first of its {} is {}",
                           printable(name), tensors.size(),
                           tensors.empty() ? "missing" : tensors.front().spec.name));
  }
  return static_cast<std::uint32_t>(found - tensors.begin());
}

/// Both sides and the model between them.
struct Planner {
  PlanOptions options;
  scenario::Scenario scenario;
  model::Inventory model;
  model::Recipe recipe;
  std::vector<bool> quantized;
  Sides sides;
  std::unique_ptr<reshard::Layout> trainer, generator;
  reshard::Options reshard_options;

  explicit Planner(const PlanOptions& asked)
      : options(asked),
        scenario(scenario_of(options)),
        model(model::parse_inventory(scenario.config_json, scenario.config_place)),
        recipe{scenario.recipe.value_or(model::default_recipe(model)), scenario.ignore},
        quantized(model::select_quantized(model, recipe)),
        sides(sides_of(options, scenario)),
        trainer(reshard::trainer_layout(model, sides.trainer, sides.form)),
        generator(reshard::generator_layout(model, sides.generator, quantized)) {
    reshard_options = {
        .colocated = !options.ranks.separate && !(scenario.ranks && !scenario.ranks->colocated),
        .prequantize = options.prequantize == "on",
        .round_bytes = options.round_bytes,
        .gpus_per_node = sides.gpus_per_node};
  }

  [[nodiscard]] reshard::Report report() const {
    reshard::Report report;
    report.name = scenario.name;
    report.tensors = model.tensors.size();
    report.quantized_tensors =
        static_cast<std::uint64_t>(std::count(quantized.begin(), quantized.end(), true));
    report.bytes = model.bytes();
    report.trainer = trainer->parallelism();
    report.generator = generator->parallelism();
    report.trainer_form = sides.form;
    report.plan = reshard::reshard(model, quantized, *trainer, *generator, reshard_options,
                                   rank_of(options.rank, *trainer), rank_of(options.rank, *generator));
    report.summary = reshard::summarize(report.plan, options.bandwidths);
    report.notes = sides.notes;
    report.notes.insert(report.notes.end(), report.plan.notes.begin(), report.plan.notes.end());
    if (options.rank) {
      report.rank = {*options.rank, reshard::receivers(report.plan, model),
                     reshard::senders(report.plan, model)};
    }
    if (!options.explain.empty()) report.explained = explained(find_tensor(model, options.explain));
    return report;
  }

 private:
  [[nodiscard]] reshard::Report::Explained explained(std::uint32_t tensor) const {
    const auto transfers = reshard::explain(model, quantized, *trainer, *generator, reshard_options, tensor);
    return {options.explain, reshard::places(*trainer, *generator, transfers, recipe, scenario.moe_layout)};
  }
};

void check(const PlanOptions& options, const Planner& planner) {
  if (options.round_bytes < kSmallestRound) {
    fail_input(
        fmt::format("--round-size {}: at least {} bytes make a round", options.round_bytes, kSmallestRound));
  }
  const std::uint32_t trainers = planner.trainer->ranks(), generators = planner.generator->ranks();
  if (options.rank && *options.rank >= std::max(trainers, generators)) {
    fail_input(fmt::format("--rank {}: there are {} trainer and {} generator ranks, counted from 0",
                           *options.rank, trainers, generators));
  }
  if (!options.explain.empty()) (void)find_tensor(planner.model, options.explain);
  if (options.what_if != !options.platform.empty()) {
    fail_input(options.what_if ? "--what-if: say on which hardware with --platform"
                               : "--platform is of --what-if");
  }
}

/// Everything that was read to make the plan.
std::vector<std::string> inputs(const PlanOptions& options, const scenario::Scenario& scenario) {
  std::vector<std::string> files = {options.model, scenario.config_place, options.stack};
  if (!options.platform.empty()) files.push_back(options.platform);
  for (const scenario::Entry& entry : scenario::list_scenarios()) {
    if (entry.name == options.model) files.push_back(entry.file.string());
  }
  return files;
}

struct Said {
  std::string json, text;
};

Said planned(const Planner& planner) {
  const reshard::Report report = planner.report();
  return {to_json(report), plan_text(report)};
}

/// Of the ranks that are planned for.
Said what_if(const PlanOptions& options, const Planner& planner) {
  const project::Platform platform = project::find_platform(options.platform);
  const project::Stack stack = project::find_stack(options.stack);
  scenario::Scenario scenario = planner.scenario;
  scenario.cluster = scenario::Ranks{.trainer = planner.trainer->parallelism(),
                                     .generator = planner.generator->parallelism(),
                                     .form = planner.sides.form,
                                     .colocated = planner.reshard_options.colocated};
  const project::WhatIf result =
      project::what_if(scenario, planner.model, platform, stack, options.arm == "control");
  return {to_json(result, scenario, platform, stack), to_text(result, scenario, platform, stack)};
}

int plan(const PlanOptions& options) {
  std::optional<OutputFile> json;
  const Planner planner(options);
  check(options, planner);
  if (!options.json.empty()) {
    require_apart("--json", options.json, inputs(options, planner.scenario));
    json.emplace(options.json);
  }
  const Said said = options.what_if ? what_if(options, planner) : planned(planner);
  if (json) json->write(said.json);
  if (json && options.quiet) return 0;
  json && json->is_stdout() ? write_stderr(said.text) : write_stdout(said.text);
  return 0;
}

}  // namespace
}  // namespace refit::apps

int main(int argc, char** argv) {
  using namespace refit::apps;
  CLI::App app(
      "Plans moving weights between many ranks: who sends what to whom, when, and the least it costs.",
      "refit-plan");
  PlanOptions options;
  add_plan_options(app, options);
  return run_app(app, argc, argv, [&] { return plan(options); });
}
