// Order statistics and intervals of a handful of samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace refit {

/// The value that a share `p` of ascending samples does not exceed, interpolated linearly between order
/// statistics (numpy's default). There has to be a sample.
[[nodiscard]] double quantile(std::span<const double> sorted, double p);

struct Summary {
  std::size_t count = 0;
  double mean = 0, median = 0, min = 0, max = 0;
  /// Half the interquartile range over the median: a robust relative spread; 0 when the median is 0.
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

/// The ratios that bootstrap_ratio takes its interval from, ascending.
[[nodiscard]] std::vector<double> bootstrap_ratios(std::span<const double> a, std::span<const double> b,
                                                   std::uint64_t seed);

/// Medians of `draws` resamples of samples that were taken one after the other: of circular blocks of
/// n^(1/3) neighbours (Politis and Romano 1992), so that drift and changing clocks widen them as they should.
/// Seeded; nothing without samples. Samples must be finite.
[[nodiscard]] std::vector<double> bootstrap_medians(std::span<const double> samples, std::size_t draws,
                                                    std::uint64_t seed);

}  // namespace refit
