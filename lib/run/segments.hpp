// The data path on the host: rows of segments into their final place, in one pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
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
void execute_items(const plan::Plan& plan, std::span<const WorkItem> items, std::span<const std::byte> sources,
                   std::span<std::byte> destinations, ThreadPool& pool);

/// Quantizes `rows` consecutive rows of `cols` BF16 elements into row-major values and scales.
void quantize_rows(const std::byte* source, std::uint64_t rows, std::uint64_t cols, const quant::Options& options,
                   std::byte* values, std::byte* scales);

/// Copies in pieces shared among the pool's threads. One launch.
void parallel_copy(std::byte* to, const std::byte* from, std::uint64_t bytes, ThreadPool& pool);

}  // namespace refit::run
