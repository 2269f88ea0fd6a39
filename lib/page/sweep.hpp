// What the page shows of a sweep: refit-sweep/1, read once and checked.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "page/result.hpp"

namespace refit::page {

struct SweepAxis {
  std::string key;
  std::vector<std::string>
      values;                   ///< in the order in which they ran; from least to most where all are numbers
  std::vector<double> numbers;  ///< of values; empty where one is none
};

/// transfer_and_update_weights of one arm, seconds.
struct SweepTimes {
  double median, low, high;
  std::optional<double> x_floor;
};

struct SweepPoint {
  std::vector<std::size_t> at;  ///< index of its value on each axis
  std::string status, message;
  bool ran = false, wrong = false, verified = false;
  std::array<std::optional<SweepTimes>, 2> arms;
  std::array<std::uint64_t, 2> peak_extra_bytes{};
  std::optional<double> ratio, floor;  ///< floor: seconds that a plain copy takes
};

struct Sweep {
  std::vector<SweepAxis> axes;  ///< the slowest first, as --sweep was given
  std::vector<SweepPoint> points;
  Result first;                       ///< the first point that ran, else the first
  std::vector<std::string> replayed;  ///< sentences, each once
};

/// Error(input) that names file and key for what is no refit-sweep/1.
[[nodiscard]] Sweep read_sweep(const JsonNode& root);

/// "64MiB, threads 2" of the axes from `from` on that have more than one value.
[[nodiscard]] std::string settings_of(const Sweep& sweep, const SweepPoint& point, std::size_t from = 0);

[[nodiscard]] std::string sweep_top_section(const Sweep& sweep);
/// Both arms' medians along the first axis, a panel for every combination of the others.
[[nodiscard]] std::string sweep_curve_section(const Sweep& sweep);
[[nodiscard]] std::string sweep_table_section(const Sweep& sweep);

}  // namespace refit::page
