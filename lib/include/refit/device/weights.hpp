// Seeded weights and an optimizer-like update, element by element from counters alone: any thread, process or
// device computes the same values for the same (seed, step, tensor, element), whichever part of it it holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "refit/base/thread_pool.hpp"
#include "refit/plan/plan.hpp"
#include "refit/tensor/tensor.hpp"

namespace refit::device {

/// Rows [row, row + rows) and columns [col, col + cols) of a tensor seen as a matrix, where a rank keeps
/// them.
struct WeightBox {
  const TensorSpec* tensor = nullptr;  ///< the whole tensor; outlives the call
  std::uint64_t row = 0, rows = 0, col = 0, cols = 0;
  std::byte* data = nullptr;  ///< the first element; an address of the backend
  std::uint64_t pitch = 0;    ///< bytes from one row to the next

  /// Rows that follow each other in the tensor and in memory are one run.
  [[nodiscard]] bool is_one_run() const {
    return cols == tensor->cols() && pitch == cols * size_of(tensor->dtype);
  }
};

/// Every source of a plan, whole, in an arena.
[[nodiscard]] std::vector<WeightBox> weight_boxes(const plan::Plan& plan, std::span<std::byte> sources);

/// What the values of one tensor are hashed from: at step 0, and for the move from step - 1 to `step`.
[[nodiscard]] std::uint64_t weight_key(std::uint64_t seed, const TensorSpec& tensor);
[[nodiscard]] std::uint64_t update_key(std::uint64_t seed, const TensorSpec& tensor, std::uint64_t step);

/// Step 0. BF16: sum of four random bytes, centred and scaled by 2^-13 (about normal, sigma 0.018), the first
/// block of every 97th row zero (dead rows and unused experts do occur), blocks lowered by 0 to 23 octaves so
/// that scales differ. FP32: 3 + 14 random low bits (a cast to BF16 loses all of them). Other dtypes: random
/// bytes below 0x40.
void fill_weights(std::span<const WeightBox> boxes, std::uint64_t seed, ThreadPool& pool);

/// From step - 1 to `step`. BF16: one element of every four moves by 1 to 5 units in the last place, up or
/// down, if its magnitude is at least 2^-120; zeros stay. FP32: every element moves by 1 to 2048 units. Other
/// dtypes: new bytes. Elements never become infinite or NaN.
void update_weights(std::span<const WeightBox> boxes, std::uint64_t seed, std::uint64_t step,
                    ThreadPool& pool);

}  // namespace refit::device
