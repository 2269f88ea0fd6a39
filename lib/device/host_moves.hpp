// Host-memory copies that stand in for the device traffic around a refit: optimizer offload and reference
// swap.
#pragma once

#include <cstdint>

#include "refit/base/thread_pool.hpp"
#include "refit/device/backend.hpp"
#include "refit/transport/shared_memory.hpp"

namespace refit::device {

/// On a machine without a GPU both ends are host memory. Pinned: the target pages exist already, as a pinned
/// buffer's do. Pageable: every chunk goes to freshly mapped pages, which the kernel has to provide and clear
/// first.
class HostMoves {
 public:
  explicit HostMoves(ThreadPool& pool) : pool_(pool) {}

  /// Copies `bytes` in chunks and returns the seconds it took.
  double run(std::uint64_t bytes, bool pinned);

 private:
  static constexpr std::uint64_t kChunkBytes = kMoveWindowBytes / 2;
  ThreadPool& pool_;
  transport::SharedMemory device_, pinned_;
};

}  // namespace refit::device
