// The data path on the host: rows of segments into their final place, in one pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "refit/base/thread_pool.hpp"
#include "refit/plan/plan.hpp"
#include "refit/verify/verify.hpp"

namespace refit::run {

/// A piece of a segment that one thread executes.
using WorkItem = verify::Executed;

/// All segments of a plan cut into pieces of about 1 MiB of whole rows, in plan order.
[[nodiscard]] std::vector<WorkItem> cut_into_items(const plan::Plan& plan);

/// Executes items: copy, quantize with row permutation and scale layout, zero. One launch.
void execute_items(const plan::Plan& plan, std::span<const WorkItem> items,
                   std::span<const std::byte> sources, std::span<std::byte> destinations, ThreadPool& pool);

/// Consecutive rows of `cols` BF16 elements to be quantized into row-major values and scales.
struct QuantizeRows {
  const std::byte* from = nullptr;
  std::byte* values = nullptr;
  std::byte* scales = nullptr;
  std::uint64_t rows = 0, cols = 0;
  const std::string* tensor = nullptr;  ///< for messages
  std::uint64_t first_row = 0;          ///< of the tensor
};
/// Throws Error(input) naming tensor and index of the first infinite or NaN element when options say so.
void quantize_rows(const QuantizeRows& what, const quant::Options& options);

/// Copies in pieces shared among the pool's threads, past the cache. One launch.
void parallel_copy(std::byte* to, const std::byte* from, std::uint64_t bytes, ThreadPool& pool);

}  // namespace refit::run
