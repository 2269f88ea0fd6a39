// Planning and running one bench.
#include "measure.hpp"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "common/backends.hpp"
#include "common/generator_role.hpp"
#include "progress.hpp"
#include "refit/base/error.hpp"
#include "refit/model/inventory.hpp"
#include "refit/ranks/ranks.hpp"
#include "refit/run/bench.hpp"
#include "refit/scenario/ranks_replay.hpp"
#include "refit/scenario/replay.hpp"
#ifdef REFIT_TEST_SLOWDOWN
#include "support/slowdown.hpp"
#endif

namespace refit::apps {
namespace {

void check_simulation(const BenchOptions& options) {
  if (options.refit.transport != "auto") {
    fail_input(fmt::format("--transport {} is between processes, and a simulated rank is alone: leave it out",
                           options.refit.transport));
  }
  if (!options.refit.checkpoint.empty()) {
    fail_input("--checkpoint feeds one rank; many ranks have seeded weights, simulated ones, too");
  }
}

scenario::Replay chosen_replay(const BenchOptions& options, const report::Report& report) {
  return report.scenario.ranks
             ? scenario::choose_ranks_replay(report.scenario, report.model, options.refit.replay)
             : scenario::choose_replay(report.scenario, report.model, options.refit.replay);
}

/// A trainer here and a generator in a process of its own, or one rank of many without the others.
void run(const BenchOptions& options, report::Report& report) {
  ProgressBar bar(!options.quiet);
  const run::Progress progress = [&](unsigned done, unsigned planned, const std::string& what) {
    bar.show(done, planned, what);
  };
  run::BenchSpec spec = report.replay->spec;
  if (report.scenario.ranks) {
    report.ranks = ranks::run_simulated(scenario::ranks_spec(*report.scenario.ranks, std::move(spec)),
                                        make_backend, progress);
    report.result = report.ranks->bench;
    return;
  }
  start_generators_as_this_program(spec);
#ifdef REFIT_TEST_SLOWDOWN
  test::hold_up(spec);
#endif
  report.result = run::run_bench(spec, make_backend, progress);
}

}  // namespace

void prepare(BenchOptions& options, const report::Report& report) {
  if (report.scenario.ranks) check_simulation(options);
  choose_backend(options.refit, options.dry_run);
}

void measure(const BenchOptions& options, report::Report& report) {
  report.model = model::parse_inventory(report.scenario.config_json, report.scenario.config_place);
  try {
    report.replay = chosen_replay(options, report);
  } catch (const Error& error) {
    report.status = report::Status::refused;
    report.message = error.what();
    throw;
  }
  set_run(options, report.replay->spec);
  if (options.dry_run) {
    report.status = report::Status::dry_run;
    return;
  }
  try {
    run(options, report);
  } catch (const std::exception& error) {
    report.status = report::Status::failed;
    report.message = error.what();
    throw;
  }
  report.status = report::status_of(*report.result);
}

}  // namespace refit::apps
