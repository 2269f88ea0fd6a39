// Tasks on the host, by all threads of a pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "refit/base/thread_pool.hpp"
#include "refit/device/task.hpp"

namespace refit::device {

/// Tasks cut into pieces of about 1 MiB of whole rows, in order.
[[nodiscard]] std::vector<Task> cut_into_pieces(std::span<const Task> tasks);

/// Executes pieces; Error(input) naming tensor and element when a quantize task refuses what it met.
void execute_pieces(std::span<const Task> pieces, ThreadPool& pool);

/// Copies in pieces shared among the pool's threads, past the cache.
void parallel_copy(std::byte* to, const std::byte* from, std::uint64_t bytes, ThreadPool& pool);

/// Bytes of scratch that shuffle_in_place needs: one matrix a thread.
[[nodiscard]] std::uint64_t shuffle_scratch_bytes(const Shuffle& what, ThreadPool& pool);
void shuffle_in_place(const Shuffle& what, std::byte* scratch, ThreadPool& pool);

}  // namespace refit::device
