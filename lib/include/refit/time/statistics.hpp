// Order statistics and intervals of a handful of samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace refit {

struct Summary {
  std::size_t count = 0;
  double mean = 0, median = 0, min = 0, max = 0;
  /// Half the interquartile range over the median: a robust relative spread; 0 when the median is 0.
  /// Quartiles are interpolated linearly between order statistics (numpy's default).
  double spread = 0;
};
/// All zero for no samples. Samples must be finite.
[[nodiscard]] Summary summarize(std::span<const double> samples);

struct Interval {
  double low = 0, high = 0;
};
/// 95 % percentile bootstrap interval of median(b) / median(a), from pairs drawn together when the sizes
/// agree (interleaved arms), independently otherwise. Seeded: the same input gives the same interval. One
/// sample a side gives an interval of width 0, which says nothing about the spread. Draws whose median(a) is
/// 0 have no ratio and are left out; {0, 0} when none is left, or without samples. Samples must be finite.
[[nodiscard]] Interval bootstrap_ratio(std::span<const double> a, std::span<const double> b,
                                       std::uint64_t seed);

}  // namespace refit
