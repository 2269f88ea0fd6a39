// Values to try: the points of a sweep.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace refit::scenario {

struct SweepAxis {
  std::string key;
  std::vector<std::string> values;
};

/// One point: a value for each axis, in the order of the axes.
using SweepPoint = std::vector<std::pair<std::string, std::string>>;

inline constexpr std::size_t kMostSweepPoints = 1000;

/// Reads "KEY=V1,V2,..": a switch, "layers" or "threads". Error(input) for an unknown key (with the nearest
/// known one), a value that the key does not take, none, and one given twice.
[[nodiscard]] SweepAxis parse_sweep_axis(std::string_view text);

/// Every combination, the last axis fastest. Error(input) for more than kMostSweepPoints, and for a key that
/// two axes have.
[[nodiscard]] std::vector<SweepPoint> sweep_points(const std::vector<SweepAxis>& axes);

}  // namespace refit::scenario
