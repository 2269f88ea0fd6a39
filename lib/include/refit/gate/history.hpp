// Results over time: where a phase's level changed, and by how much.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "refit/gate/decision.hpp"
#include "refit/gate/measurement.hpp"

namespace refit::gate {

/// From this value on the level is another.
struct ChangePoint {
  std::size_t first = 0;
  double before = 0, after = 0;  ///< medians of the stretches on both sides
  double p = 0;                  ///< how often shuffled values show as clear a change
};

/// Halves the series where ranks differ most (the standardized rank-sum statistic of every cut), for as long
/// as at most one shuffled series of a hundred shows as much (a permutation test, seeded) and the level
/// changes by more than `least`. Stretches hold at least 3 values; fewer than 8 values show nothing.
[[nodiscard]] std::vector<ChangePoint> change_points(std::span<const double> values, const Threshold& least,
                                                     std::uint64_t seed);

/// One phase of results that may be compared, in the order of their dates.
struct SeriesOfRuns {
  std::string what;  ///< what was measured: scenario, backend and device of refit-bench, else the format
  std::string arm, phase;
  struct Point {
    std::string date, commit, file;
    double median = 0;
  };
  std::vector<Point> points;
  std::vector<ChangePoint> changes;
};

struct History {
  std::string folder;
  std::vector<std::string> files;     ///< those that hold results, invalid ones, too
  std::vector<SeriesOfRuns> series;   ///< with at least two points
  std::size_t runs = 0;               ///< results that were read
  std::vector<std::string> left_out;  ///< files that are no results, or invalid ones, and why
};

/// Every .json file below `folder`, once whatever it is called, by the date that it says and else by its
/// name. Results are compared where their fingerprints agree, but for `allow` and the version. Without
/// `least_seconds` usual_min_effect holds. Error(input) when there is no result at all.
[[nodiscard]] History read_history(const std::string& folder, const Selection& selection,
                                   const std::vector<std::string>& allow, double least_share,
                                   std::optional<double> least_seconds, std::uint64_t seed);

/// Plain text for people.
[[nodiscard]] std::string to_table(const History& history);
/// Schema refit-history/1 (scenarios/schema/refit-history-1.schema.json).
[[nodiscard]] std::string to_json(const History& history);

}  // namespace refit::gate
