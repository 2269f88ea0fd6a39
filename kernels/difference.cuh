// How a kernel that compares bytes collects what it found.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/launch.hpp"

namespace refit::kernels {

/// One byte: `offset` is the one that messages name.
__host__ __device__ inline void judge(Difference& found, std::uint64_t offset, std::uint32_t expected,
                                      std::uint32_t got) {
  if (expected == got) return;
  const std::uint64_t here = offset << 16 | expected << 8 | got;
  ++found.count;
  if (here < found.first) found.first = here;
}

/// Adds what the lanes of a warp found to an item's difference. All lanes have to call it; where nothing
/// differs, memory is not touched.
__device__ inline void add_of_warp(Difference found, Difference* total) {
  constexpr unsigned kAllLanes = 0xFFFFFFFF;
  if (!__any_sync(kAllLanes, found.count != 0)) return;
  for (unsigned distance = 16; distance > 0; distance /= 2) {
    const std::uint64_t first = __shfl_down_sync(kAllLanes, found.first, distance);
    found.count += __shfl_down_sync(kAllLanes, found.count, distance);
    if (first < found.first) found.first = first;
  }
  if (threadIdx.x % 32 != 0) return;
  atomicAdd(reinterpret_cast<unsigned long long*>(&total->count), found.count);
  atomicMin(reinterpret_cast<unsigned long long*>(&total->first), found.first);
}

}  // namespace refit::kernels
