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
#include "common/output_file.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "refit/base/error.hpp"
#include "refit/model/inventory.hpp"
#include "refit/report/report.hpp"
#include "refit/run/bench.hpp"
#include "refit/scenario/replay.hpp"

namespace refit::apps {
namespace {

int list() {
  const auto entries = scenario::list_scenarios();
  std::size_t width = 0;
  for (const auto& entry : entries) width = std::max(width, entry.name.size());
  std::string text;
  for (const auto& entry : entries) text += fmt::format("{:<{}}  {}\n", entry.name, width, entry.title);
  write_stdout(text);
  return 0;
}

/// Where the table and the JSON go.
class Output {
 public:
  explicit Output(const BenchOptions& options) : quiet_(options.quiet) {
    if (options.json) json_.emplace(*options.json);
  }

  void table(const report::Report& report) const {
    if (quiet_ && json_) return;
    const std::string text = report::to_table(report);
    if (json_ && json_->is_stdout()) {
      write_stderr(text);
    } else {
      write_stdout(text);
    }
  }

  void json(const report::Report& report) {
    if (json_) json_->write(report::to_json(report));
  }

 private:
  bool quiet_;
  std::optional<OutputFile> json_;
};

run::BenchResult run(const BenchOptions& options, run::BenchSpec spec) {
  start_generators_as_this_program(spec);
  ProgressBar bar(!options.quiet);
  return run::run_bench(spec, make_backend, [&](unsigned done, unsigned planned, const std::string& what) {
    bar.show(done, planned, what);
  });
}

/// Fills in how the run ended. What went wrong is in the JSON too, whole and valid, before it ends this
/// program.
void run_and_report(const BenchOptions& options, Output& output, report::Report& report) {
  try {
    report.result = run(options, report.replay->spec);
  } catch (const std::exception& error) {
    report.status = report::Status::failed;
    report.message = error.what();
    output.json(report);
    throw;
  }
  report.status = report::status_of(*report.result);
}

int bench(BenchOptions options, std::vector<std::string> argv) {
  check(options);
  choose_backend(options.refit, options.dry_run);
  Output output(options);
  report::Report report;
  report.environment = report::collect_environment(build_info(), std::move(argv));
  report.scenario = chosen_scenario(options.refit);
  report.model = model::parse_inventory(report.scenario.config_json, report.scenario.config_place);
  try {
    report.replay = scenario::choose_replay(report.scenario, report.model, options.refit.replay);
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
