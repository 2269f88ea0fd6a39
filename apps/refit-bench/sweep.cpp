// Each point is a bench as if it had been asked for alone, with a generator of its own.
#include "sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <memory>

#include "common/build_info.hpp"
#include "common/cli.hpp"
#include "common/output_file.hpp"
#include "measure.hpp"
#include "refit/base/error.hpp"
#include "refit/report/sweep.hpp"
#include "refit/scenario/sweep.hpp"

namespace refit::apps {
namespace {

BenchOptions options_of(const BenchOptions& all, const scenario::SweepPoint& point) {
  BenchOptions options = all;
  for (const auto& [key, value] : point) {
    if (key == "layers") {
      options.refit.replay.layers = std::stoull(value);
    } else if (key == "threads") {
      options.refit.replay.backend.threads = static_cast<unsigned>(std::stoul(value));
    } else {
      options.refit.treatment +=
          fmt::format("{}{}={}", options.refit.treatment.empty() ? "" : ",", key, value);
    }
  }
  return options;
}

std::vector<scenario::SweepPoint> points_of(const BenchOptions& options) {
  std::vector<scenario::SweepAxis> axes;
  for (const std::string& text : options.sweeps) {
    axes.push_back(from_option("--sweep", [&] { return scenario::parse_sweep_axis(text); }));
  }
  return from_option("--sweep", [&] { return scenario::sweep_points(axes); });
}

/// What is wrong for every point is refused before the first one.
void check_sweep(const BenchOptions& options, const std::vector<scenario::SweepPoint>& points) {
  for (const auto& [option, path] :
       {std::pair{"--trace", &options.trace}, {"--csv", &options.csv}, {"--report", &options.report}}) {
    if (*path) fail_input(fmt::format("{} is of one bench; of a sweep there is --json", option));
  }
  const scenario::Scenario scenario = chosen_scenario(options_of(options, points.front()).refit);
  if (scenario.ranks && !scenario.ranks->simulated) {
    fail_input(fmt::format(
        "--sweep runs its points one after the other in this process, and each of {0} ranks is "
        "started for one bench: call refit-bench for each --treatment KEY=VALUE, or sweep one rank "
        "of them with --simulate-ranks {0}",
        scenario.ranks->processes()));
  }
  report::Report report;
  report.scenario = scenario;
  BenchOptions first = options_of(options, points.front());
  prepare(first, report);
}

int code_of(const std::exception& error) {
  const auto* const ours = dynamic_cast<const Error*>(&error);
  return exit_code(ours != nullptr ? ours->kind() : ErrorKind::runtime);
}

/// Returns the point's exit code.
int run_point(BenchOptions options, report::Report& report) {
  try {
    report.scenario = chosen_scenario(options.refit);
    prepare(options, report);
    measure(options, report);
  } catch (const std::exception& error) {
    if (report.message.empty()) {
      report.status = report::Status::refused;
      report.message = error.what();
    }
    return code_of(error);
  }
  return report.status == report::Status::mismatch ? exit_code(ErrorKind::check) : 0;
}

}  // namespace

int sweep(const BenchOptions& options, const std::vector<std::string>& argv) {
  const std::vector<scenario::SweepPoint> points = points_of(options);
  check_sweep(options, points);
  std::unique_ptr<OutputFile> json;
  if (options.json) {
    require_apart_from_checkpoints("--json", *options.json, {options.refit.checkpoint, options.refit.model});
    json = std::make_unique<OutputFile>(*options.json);
  }
  const auto say = [&](const std::string& text) {
    if (options.quiet && json != nullptr) return;
    if (json != nullptr && json->is_stdout()) {
      write_stderr(text);
    } else {
      write_stdout(text);
    }
  };
  report::SweepReport results(points);
  say(results.head());
  int worst = 0;
  for (const scenario::SweepPoint& point : points) {
    report::Report report;
    report.environment = report::collect_environment(build_info(), argv);
    worst = std::max(worst, run_point(options_of(options, point), report));
    say(results.add(report));
  }
  if (json != nullptr) json->write(results.to_json());
  return worst;
}

}  // namespace refit::apps
