// A bench for each combination of factors, its arms interleaved: what drifts meanwhile is in both.
#include "ablation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "combinations.hpp"
#include "projected.hpp"
#include "projected_combinations.hpp"
#include "refit/ablation/report.hpp"
#include "refit/base/error.hpp"
#include "refit/report/sweep.hpp"
#include "refit/time/statistics.hpp"
#include "series.hpp"

namespace refit::apps {
namespace {

using ablation::Subset;

void check_ablation(const BenchOptions& options) {
  check_series_files(options, "an ablation", false);
  if (!options.sweeps.empty()) {
    fail_input("--sweep and --ablation each choose what to run: leave out one of them");
  }
  if (options.validate_projection) fail_input("--validate-projection runs no bench; leave out --ablation");
  if (options.platform == "this") {
    fail_input(
        "--platform this is of one bench, whose copies it is measured by; an ablation is projected by name");
  }
}

/// Switches of host traffic that is left out are no factors.
Combinations combinations_of(const BenchOptions& options, const AblationOptions& asked,
                             scenario::Scenario scenario) {
  if (!options.host_traffic) scenario.host_traffic = {};
  return choose_combinations(scenario, asked);
}

report::Report run_combination(BenchOptions options, const scenario::Scenario& scenario,
                               const Combinations& chosen, Subset subset,
                               const std::vector<std::string>& argv, int& worst) {
  const auto its = [&] {
    scenario::Scenario one = scenario;
    one.treatment = combined(scenario, chosen.factors, subset);
    return one;
  };
  report::Report report;
  worst = std::max(worst, run_in_series(std::move(options), its, argv, report));
  return report;
}

bool are_equal(const model::Slice& a, const model::Slice& b) {
  return std::tie(a.layers, a.experts, a.vocab_rows) == std::tie(b.layers, b.experts, b.vocab_rows);
}

/// Memory holds more of a model with some switches than with others, and effects of different parts are not
/// comparable. What cannot be planned says so when its turn comes.
void check_same_part(BenchOptions options, const scenario::Scenario& scenario, const Combinations& chosen) {
  options.dry_run = true;
  std::optional<std::pair<Subset, scenario::Replay>> first;
  int ignored = 0;
  for (const Subset subset : chosen.subsets) {
    const report::Report plan = run_combination(options, scenario, chosen, subset, {}, ignored);
    if (!plan.replay) continue;
    if (!first) first.emplace(subset, *plan.replay);
    if (are_equal(plan.replay->spec.slice, first->second.spec.slice)) continue;
    fail_input(
        fmt::format("--ablation compares combinations of one part of a model, and the memory holds different "
                    "ones. \"{}\": {} "
                    "\"{}\": {} Say which with --layers and --experts, or change --memory-budget",
                    ablation::label(chosen.factors, first->first), first->second.sentence,
                    ablation::label(chosen.factors, subset), plan.replay->sentence));
  }
}

/// What a bench says of its combination, phase by phase.
class Collected {
 public:
  explicit Collected(const Combinations& chosen)
      : chosen_(chosen), worths_(chosen.phases.size()), controls_(chosen.phases.size()) {}

  /// Nothing of a bench that did not end, or whose bytes are wrong: it is missing.
  void add(Subset subset, const report::Report& report) {
    benches_.push_back({subset, report::to_json(report)});
    if (report.status != report::Status::ok) return;
    for (std::size_t i = 0; i < chosen_.phases.size(); ++i) {
      const std::vector<double>& control = report.result->control.phases.at(chosen_.phases[i]).seconds;
      const std::vector<double>& treatment = report.result->treatment.phases.at(chosen_.phases[i]).seconds;
      worths_[i].emplace(subset, ablation::measured_worth(control, treatment, subset));
      if (subset == ablation::all_of(chosen_.factors.size())) controls_[i] = summarize(control).median;
    }
  }

  [[nodiscard]] ablation::Measured measured() && {
    ablation::Measured measured;
    for (std::size_t i = 0; i < chosen_.phases.size(); ++i) {
      measured.phases.push_back({chosen_.phases[i], controls_[i],
                                 ablation::attribute(chosen_.method, chosen_.factors.size(), worths_[i])});
    }
    measured.benches = std::move(benches_);
    return measured;
  }

 private:
  const Combinations& chosen_;
  std::vector<ablation::Worths> worths_;
  std::vector<std::optional<double>> controls_;
  std::vector<ablation::Bench> benches_;
};

/// Returns the highest exit code.
int measure_all(const BenchOptions& options, const scenario::Scenario& scenario, const Combinations& chosen,
                const std::vector<std::string>& argv, const SeriesOutput& output, ablation::Result& result) {
  std::vector<scenario::SweepPoint> points;
  for (const Subset subset : chosen.subsets) {
    points.push_back({{"on", ablation::label(chosen.factors, subset)}});
  }
  report::SweepReport lines(points);
  output.say(lines.head());
  Collected collected(chosen);
  int worst = 0;
  for (const Subset subset : chosen.subsets) {
    const report::Report report = run_combination(options, scenario, chosen, subset, argv, worst);
    collected.add(subset, report);
    output.say(lines.add(report));
  }
  result.measured = std::move(collected).measured();
  return worst;
}

}  // namespace

void add_ablation_options(CLI::App& app, AblationOptions& options) {
  app.add_option_function<std::string>(
         "--ablation", [&](const std::string& text) { options.method = text; },
         "How much is due to each switch that the arms set differently: a bench for each alone, for all but "
         "each, or for every combination")
      ->type_name("one-on|one-off|shapley");
  app.add_option("--factors", options.factors,
                 "Of --ablation: these switches, '+' between those that move together [every one alone]")
      ->type_name("SWITCH,SWITCH+SWITCH,..")
      ->needs("--ablation");
}

int ablate(const BenchOptions& options, const AblationOptions& asked, const std::vector<std::string>& argv) {
  check_ablation(options);
  scenario::Scenario scenario = chosen_scenario(options.refit);
  if (options.project_only) scenario = projected_scenario(options, std::move(scenario));
  const Combinations chosen = combinations_of(options, asked, scenario);
  if (!options.project_only) {
    check_series(options, "--ablation", scenario);
    check_same_part(options, scenario, chosen);
  }
  SeriesOutput output(options);
  ablation::Result result{.scenario = scenario.name,
                          .method = chosen.method,
                          .factors = chosen.factors,
                          .left_out = chosen.left_out,
                          .measured = {},
                          .projected = {}};
  if (options.platform)
    result.projected = project_combinations(options, projected_scenario(options, scenario), chosen);
  int worst = 0;
  if (!options.project_only) worst = measure_all(options, scenario, chosen, argv, output, result);
  output.say(ablation::to_text(result));
  output.write(ablation::to_json(result), "the ablation");
  return worst;
}

}  // namespace refit::apps
