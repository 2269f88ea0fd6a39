// Refit times as machines give them: heavy tails, drift, clocks that change.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "refit/base/digest.hpp"

namespace refit::test {

/// One cold start after another: samples around 1.
class Noise {
 public:
  explicit Noise(std::uint64_t seed) : state_(mix64(seed)) {}

  double uniform() {
    state_ += 0x9E3779B97F4A7C15ull;
    return (static_cast<double>(mix64(state_) >> 11) + 0.5) * 0x1p-53;
  }
  double normal() { return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform()); }

  std::vector<double> plain(std::size_t n, double spread) {
    std::vector<double> samples(n);
    for (double& sample : samples) sample = 1 + spread * normal();
    return samples;
  }

  /// Student's t with 3 degrees of freedom, and one sample of 20 takes up to five times as long.
  std::vector<double> heavy_tailed(std::size_t n) {
    std::vector<double> samples(n);
    for (double& sample : samples) {
      const double squares = std::pow(normal(), 2) + std::pow(normal(), 2) + std::pow(normal(), 2);
      sample = std::max(0.5, 1 + 0.025 * normal() / std::sqrt(squares / 3));
      if (uniform() < 0.05) sample *= 1 + 4 * uniform();
    }
    return samples;
  }

  /// Up to `most` more or less at the end than at the beginning.
  std::vector<double> drifting(std::size_t n, double most) {
    std::vector<double> samples = plain(n, 0.03);
    const double slope = most * (2 * uniform() - 1);
    for (std::size_t i = 0; i < n; ++i)
      samples[i] *= 1 + slope * (static_cast<double>(i) / static_cast<double>(n) - 0.5);
    return samples;
  }

  /// The first samples take up to a quarter longer.
  std::vector<double> warming_up(std::size_t n) {
    std::vector<double> samples = plain(n, 0.03);
    const double extra = 0.25 * uniform();
    for (std::size_t i = 0; i < n; ++i) samples[i] *= 1 + extra * std::exp(-static_cast<double>(i) / 3);
    return samples;
  }

  /// Two clocks, `apart` from each other, which change every `dwell` samples on average.
  std::vector<double> two_clocks(std::size_t n, double apart, double dwell) {
    std::vector<double> samples = plain(n, 0.02);
    bool slow = uniform() < 0.5;
    for (double& sample : samples) {
      if (slow) sample *= 1 + apart;
      if (uniform() < 1 / dwell) slow = !slow;
    }
    return samples;
  }

  /// All of it at once.
  std::vector<double> everything(std::size_t n) {
    std::vector<double> samples = heavy_tailed(n);
    const std::vector<double> drift = drifting(n, 0.06), clocks = two_clocks(n, 0.06, 5);
    for (std::size_t i = 0; i < n; ++i) samples[i] *= drift[i] * clocks[i];
    return samples;
  }

  /// A level of its own for the whole start, as memory placement gives it.
  std::vector<double> shifted(std::vector<double> samples, double spread) {
    const double level = std::max(0.5, 1 + spread * normal());
    for (double& sample : samples) sample *= level;
    return samples;
  }

 private:
  std::uint64_t state_;
};

}  // namespace refit::test
