// What a refit would take elsewhere.
#include "projected.hpp"

#include "common/ranks_options.hpp"
#include "refit/base/error.hpp"
#include "refit/project/validation.hpp"
#include "series.hpp"

namespace refit::apps {
namespace {

constexpr const char* kThis = "this";

bool is_this(const BenchOptions& options) {
  return options.platform == kThis;
}

}  // namespace

scenario::Scenario projected_scenario(const BenchOptions& options, scenario::Scenario scenario) {
  const RanksOptions& given = options.refit.ranks;
  if (given.simulate_ranks || given.simulate_rank) {
    fail_input("--simulate-ranks runs one rank of many here; a projection is of all of them: leave it out");
  }
  if (!given.train && !given.gen && !given.separate && given.trainer_form.empty()) return scenario;
  scenario::Scenario base = scenario;
  base.ranks = scenario.cluster ? scenario.cluster : scenario.ranks;
  scenario.cluster = chosen_ranks(given, base);
  scenario.cluster_assumption = "Ranks as --train and --gen say.";
  return scenario;
}

project::Platform chosen_platform(const BenchOptions& options) {
  if (is_this(options)) {
    fail_input("--platform this is what a bench measures on this machine: leave out --project-only");
  }
  return project::find_platform(*options.platform);
}

project::Stack chosen_stack(const BenchOptions& options) {
  if (!options.stack.empty()) return project::find_stack(options.stack);
  return project::find_stack(is_this(options) ? "refit" : "nemo-rl");
}

int project_only(const BenchOptions& options) {
  SeriesOutput output(options);
  const scenario::Scenario scenario = projected_scenario(options, chosen_scenario(options.refit));
  const model::Inventory model = model::parse_inventory(scenario.config_json, scenario.config_place);
  const project::Projection projection =
      project::project(scenario, model, chosen_platform(options), chosen_stack(options));
  output.write(project::to_json(projection, scenario), "the projection");
  output.say(project::to_text(projection, scenario));
  return 0;
}

int validate_projection(const BenchOptions& options) {
  SeriesOutput output(options);
  const project::Stack stack =
      project::find_stack(options.stack.empty() ? std::string("nemo-rl") : options.stack);
  const project::Validation validation =
      project::validate(project::find_tables(), stack, project::find_stack("refit"));
  output.write(project::to_json(validation), "the validation");
  output.say(project::to_text(validation));
  return 0;
}

ProjectionBeside::ProjectionBeside(const BenchOptions& options, const scenario::Scenario& scenario) {
  if (!options.platform) return;
  asked_ = {projected_scenario(options, scenario), std::nullopt, chosen_stack(options)};
  if (is_this(options)) {
    asked_->scenario.cluster.reset();  // what runs here
  } else {
    asked_->platform = chosen_platform(options);
  }
}

void ProjectionBeside::fill_in(report::Report& report) const {
  if (!asked_) return;
  const project::Platform platform =
      asked_->platform ? *asked_->platform : project::measured_platform(report.result->copy);
  report.projection = project::project(asked_->scenario, report.model, platform, asked_->stack);
}

}  // namespace refit::apps
