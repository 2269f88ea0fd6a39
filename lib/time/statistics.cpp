// Summaries of a handful of samples, and the bootstrap of a ratio of medians.
#include "refit/time/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "refit/base/digest.hpp"

namespace refit {

namespace {

// Enough that each 2.5 % tail holds 100 draws, and a few milliseconds for 20 samples.
constexpr std::size_t kDraws = 4000;

double quantile(const std::vector<double>& sorted, double p) {
  const double position = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], position - static_cast<double>(below));
}

double median_in_place(std::vector<double>& samples) {
  std::sort(samples.begin(), samples.end());
  return quantile(samples, 0.5);
}

/// A counter-based generator (splitmix64): the n-th value depends on the seed and n alone.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(mix64(seed)) {}
  /// Uniform in [0, n), n below 2^32.
  std::size_t below(std::size_t n) {
    state_ += 0x9E3779B97F4A7C15ull;
    return (mix64(state_) >> 32) * n >> 32;
  }

 private:
  std::uint64_t state_;
};

}  // namespace

Summary summarize(std::span<const double> samples) {
  if (samples.empty()) return {};
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  Summary summary;
  summary.count = sorted.size();
  summary.mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / static_cast<double>(sorted.size());
  summary.median = quantile(sorted, 0.5);
  summary.min = sorted.front();
  summary.max = sorted.back();
  if (summary.median != 0) {
    summary.spread = 0.5 * (quantile(sorted, 0.75) - quantile(sorted, 0.25)) / std::abs(summary.median);
  }
  return summary;
}

Interval bootstrap_ratio(std::span<const double> a, std::span<const double> b, std::uint64_t seed) {
  if (a.empty() || b.empty()) return {};
  const bool paired = a.size() == b.size();
  Random random(seed);
  std::vector<double> drawn_a(a.size()), drawn_b(b.size()), ratios;
  ratios.reserve(kDraws);
  for (std::size_t draw = 0; draw < kDraws; ++draw) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      const std::size_t index = random.below(a.size());
      drawn_a[i] = a[index];
      if (paired) drawn_b[i] = b[index];
    }
    if (!paired) {
      for (double& value : drawn_b) value = b[random.below(b.size())];
    }
    const double base = median_in_place(drawn_a);
    if (base != 0) ratios.push_back(median_in_place(drawn_b) / base);
  }
  if (ratios.empty()) return {};
  std::sort(ratios.begin(), ratios.end());
  return {.low = quantile(ratios, 0.025), .high = quantile(ratios, 0.975)};
}

}  // namespace refit
