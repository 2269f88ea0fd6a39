// The finalizer of splitmix64 on the device: refit::mix64.
#pragma once

#include <cstdint>

namespace refit::kernels {

/// What a counter is multiplied by before it is mixed.
inline constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15ull;

__host__ __device__ constexpr std::uint64_t mix64(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9ull;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

}  // namespace refit::kernels
