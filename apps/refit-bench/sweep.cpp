// From axes to the benches of a series.
#include "sweep.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/cli.hpp"
#include "refit/report/sweep.hpp"
#include "refit/scenario/sweep.hpp"
#include "series.hpp"

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

}  // namespace

int sweep(const BenchOptions& options, const std::vector<std::string>& argv) {
  const std::vector<scenario::SweepPoint> points = points_of(options);
  check_series_files(options, "a sweep", true);
  const BenchOptions first = options_of(options, points.front());
  check_series(first, "--sweep", chosen_scenario(first.refit));
  SeriesOutput output(options);
  report::SweepReport results(points);
  output.say(results.head());
  int worst = 0;
  for (const scenario::SweepPoint& point : points) {
    const BenchOptions its = options_of(options, point);
    report::Report report;
    worst = std::max(worst, run_in_series(
                                its, [&] { return chosen_scenario(its.refit); }, argv, report));
    output.say(results.add(report));
  }
  output.write(results.to_json(), "the sweep");
  return worst;
}

}  // namespace refit::apps
