// What a refit would take elsewhere.
#include "projected.hpp"

#include <fmt/format.h>

#include <memory>

#include "common/cli.hpp"
#include "common/output_file.hpp"
#include "common/ranks_options.hpp"
#include "output.hpp"
#include "refit/base/error.hpp"
#include "refit/project/validation.hpp"

namespace refit::apps {
namespace {

constexpr const char* kThis = "this";

/// JSON to --json, text to the stream that it leaves free.
void write(const BenchOptions& options, OutputFile* file, const std::string& json, const std::string& text) {
  if (file != nullptr) file->write(json);
  if (options.quiet && file != nullptr) return;
  if (file != nullptr && file->is_stdout()) {
    write_stderr(text);
  } else {
    write_stdout(text);
  }
}

}  // namespace

scenario::Scenario projected_scenario(const BenchOptions& options) {
  scenario::Scenario scenario = chosen_scenario(options.refit);
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
  if (*options.platform == kThis) {
    fail_input("--platform this is what a bench measures on this machine: leave out --project-only");
  }
  return project::find_platform(*options.platform);
}

project::Stack chosen_stack(const BenchOptions& options) {
  if (!options.stack.empty()) return project::find_stack(options.stack);
  return project::find_stack(options.platform && *options.platform == kThis ? "refit" : "nemo-rl");
}

int project_only(const BenchOptions& options) {
  const auto file = open_output(options, "--json", options.json);
  const scenario::Scenario scenario = projected_scenario(options);
  const model::Inventory model = model::parse_inventory(scenario.config_json, scenario.config_place);
  const project::Projection projection =
      project::project(scenario, model, chosen_platform(options), chosen_stack(options));
  write(options, file.get(), project::to_json(projection, scenario), project::to_text(projection, scenario));
  return 0;
}

int validate_projection(const BenchOptions& options) {
  const auto file = open_output(options, "--json", options.json);
  const project::Stack stack =
      project::find_stack(options.stack.empty() ? std::string("nemo-rl") : options.stack);
  const project::Validation validation =
      project::validate(project::find_tables(), stack, project::find_stack("refit"));
  write(options, file.get(), project::to_json(validation), project::to_text(validation));
  return 0;
}

void project_beside(const BenchOptions& options, report::Report& report) {
  if (!options.platform) return;
  scenario::Scenario scenario = projected_scenario(options);
  if (*options.platform != kThis) {
    report.projection = project::project(scenario, report.model, project::find_platform(*options.platform),
                                         chosen_stack(options));
    return;
  }
  scenario.cluster.reset();  // what ran here
  report.projection = project::project(
      scenario, report.model, project::measured_platform(report.result->copy), chosen_stack(options));
}

}  // namespace refit::apps
