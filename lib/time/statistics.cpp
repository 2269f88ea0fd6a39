// Summaries of a handful of samples, and the bootstrap of medians and of their ratio.
#include "refit/time/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "time/random.hpp"

namespace refit {

namespace {

// Enough that each 2.5 % tail holds 100 draws, and a few milliseconds for 20 samples.
constexpr std::size_t kDraws = 4000;

double median_in_place(std::vector<double>& samples) {
  std::sort(samples.begin(), samples.end());
  return quantile(samples, 0.5);
}

/// Order statistics of resamples, by counting how often each sample was drawn.
class Resampler {
 public:
  explicit Resampler(std::span<const double> samples) : sorted_(samples.size()), rank_(samples.size()) {
    std::vector<std::size_t> order(samples.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return samples[a] < samples[b]; });
    for (std::size_t i = 0; i < order.size(); ++i) {
      sorted_[i] = samples[order[i]];
      rank_[order[i]] = i;
    }
  }

  /// As many samples as there are, in circular blocks of `block`.
  double median(std::size_t block, Random& random) {
    const std::size_t n = sorted_.size();
    drawn_.assign(n, 0);
    for (std::size_t have = 0; have < n;) {
      std::size_t at = random.below(n);
      for (std::size_t i = 0; i < block && have < n; ++i, ++have) {
        ++drawn_[rank_[at]];
        at = at + 1 == n ? 0 : at + 1;
      }
    }
    std::size_t below = 0, i = 0;
    while (below + drawn_[i] <= (n - 1) / 2) below += drawn_[i++];
    const double lower = sorted_[i];
    while (below + drawn_[i] <= n / 2) below += drawn_[i++];
    return 0.5 * (lower + sorted_[i]);
  }

 private:
  std::vector<double> sorted_;
  std::vector<std::size_t> rank_;
  std::vector<std::uint32_t> drawn_;
};

}  // namespace

double quantile(std::span<const double> sorted, double p) {
  const double position = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], position - static_cast<double>(below));
}

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

std::vector<double> bootstrap_ratios(std::span<const double> a, std::span<const double> b,
                                     std::uint64_t seed) {
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
  std::sort(ratios.begin(), ratios.end());
  return ratios;
}

Interval bootstrap_ratio(std::span<const double> a, std::span<const double> b, std::uint64_t seed) {
  const std::vector<double> ratios = bootstrap_ratios(a, b, seed);
  if (ratios.empty()) return {};
  return {.low = quantile(ratios, 0.025), .high = quantile(ratios, 0.975)};
}

std::vector<double> bootstrap_medians(std::span<const double> samples, std::size_t draws,
                                      std::uint64_t seed) {
  if (samples.empty()) return {};
  const auto block = static_cast<std::size_t>(std::lround(std::cbrt(static_cast<double>(samples.size()))));
  Random random(seed);
  Resampler resampler(samples);
  std::vector<double> medians(draws);
  for (double& median : medians) median = resampler.median(block, random);
  return medians;
}

}  // namespace refit
