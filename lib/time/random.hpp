// Random draws that depend on a seed alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "refit/base/digest.hpp"

namespace refit {

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

}  // namespace refit
