// refit-bench: measures a refit off against on, between two processes, and says where the time went.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <optional>

#include "common/backends.hpp"
#include "common/build_info.hpp"
#include "common/cli.hpp"
#include "common/generator_role.hpp"
#include "on_ranks.hpp"
#include "options.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "refit/base/error.hpp"
#include "refit/model/inventory.hpp"
#include "refit/ranks/ranks.hpp"
#include "refit/report/report.hpp"
#include "refit/run/bench.hpp"
#include "refit/scenario/ranks_replay.hpp"
#include "refit/scenario/replay.hpp"
#ifdef REFIT_TEST_SLOWDOWN
#include "support/slowdown.hpp"
#endif

namespace refit::apps {
namespace {

int list() {
  const auto entries = scenario::list_scenarios();
  std::size_t width = 0;
  for (const auto& entry : entries) width = std::max(width, entry.name.size());
  std::string text;
  for (const auto& entry : entries) {
    const std::uint32_t ranks = entry.ranks.value_or(1);
    text += fmt::format("{:<{}}  {:>3} {}  {}\n", entry.name, width, ranks, ranks == 1 ? "rank " : "ranks",
                        entry.title);
  }
  write_stdout(text);
  return 0;
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

/// Fills in how the run ended. What went wrong is in the JSON too, whole and valid, before it ends this
/// program.
void run_and_report(const BenchOptions& options, Output& output, report::Report& report) {
  try {
    run(options, report);
  } catch (const std::exception& error) {
    report.status = report::Status::failed;
    report.message = error.what();
    output.json(report);
    throw;
  }
  report.status = report::status_of(*report.result);
}

void check_simulation(const BenchOptions& options) {
  if (options.refit.transport != "auto") {
    fail_input(fmt::format("--transport {} is between processes, and a simulated rank is alone: leave it out",
                           options.refit.transport));
  }
  if (!options.refit.checkpoint.empty()) {
    fail_input("--checkpoint feeds one rank; many ranks have seeded weights, simulated ones, too");
  }
}

int bench(BenchOptions options, std::vector<std::string> argv) {
  check(options);
  report::Report report;
  report.environment = report::collect_environment(build_info(), std::move(argv));
  report.scenario = chosen_scenario(options.refit);
  const std::optional<scenario::Ranks>& ranks = report.scenario.ranks;
  if (ranks && !ranks->simulated) return bench_on_ranks(std::move(options), std::move(report));
  if (ranks) check_simulation(options);
  choose_backend(options.refit, options.dry_run);
  Output output(options);
  report.model = model::parse_inventory(report.scenario.config_json, report.scenario.config_place);
  try {
    report.replay = ranks ? scenario::choose_ranks_replay(report.scenario, report.model, options.refit.replay)
                          : scenario::choose_replay(report.scenario, report.model, options.refit.replay);
  } catch (const Error& error) {
    report.status = report::Status::refused;
    report.message = error.what();
    output.json(report);
    output.table(report);
    throw;
  }
  set_run(options, report.replay->spec);
  if (options.dry_run) {
    report.status = report::Status::dry_run;
  } else {
    run_and_report(options, output, report);
  }
  // The file first: a reader of the table who has left must not cost the measurement.
  output.json(report);
  output.table(report);
  return report.status == report::Status::mismatch ? exit_code(ErrorKind::check) : 0;
}

}  // namespace
}  // namespace refit::apps

int main(int argc, char** argv) {
  using namespace refit::apps;
  CLI::App app(
      "Measures moving a trainer's weights into a generation engine: off against on, every byte verified.",
      "refit-bench");
  BenchOptions options;
  bool generator = false;
  add_bench_options(app, options);
  add_generator_role(app, generator);
  return run_app(app, argc, argv, [&] {
    if (generator) return run_generator_role();
    if (options.list) return list();
    return bench(options, {argv, argv + argc});
  });
}
