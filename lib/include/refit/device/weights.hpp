// Seeded weights and an optimizer-like update, element by element from counters alone: any thread, process or
// device computes the same values for the same (seed, step, tensor, element).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "refit/base/thread_pool.hpp"
#include "refit/plan/plan.hpp"

namespace refit::device {

/// What the values of one tensor are hashed from: at step 0, and for the move from step - 1 to `step`.
[[nodiscard]] std::uint64_t weight_key(std::uint64_t seed, const plan::Source& source);
[[nodiscard]] std::uint64_t update_key(std::uint64_t seed, const plan::Source& source, std::uint64_t step);

/// Step 0. BF16: sum of four random bytes, centred and scaled by 2^-13 (about normal, sigma 0.018), the first
/// block of every 97th row zero (dead rows and unused experts do occur), blocks lowered by 0 to 23 octaves so
/// that scales differ. FP32: 3 + 14 random low bits (a cast to BF16 loses all of them). Other dtypes: random
/// bytes below 0x40.
void fill_weights(const plan::Plan& plan, std::span<std::byte> sources, std::uint64_t seed, ThreadPool& pool);

/// From step - 1 to `step`. BF16: one element of every four moves by 1 to 5 units in the last place, up or
/// down, if its magnitude is at least 2^-120; zeros stay. FP32: every element moves by 1 to 2048 units. Other
/// dtypes: new bytes. Elements never become infinite or NaN.
void update_weights(const plan::Plan& plan, std::span<std::byte> sources, std::uint64_t seed,
                    std::uint64_t step, ThreadPool& pool);

}  // namespace refit::device
