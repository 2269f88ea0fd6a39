// Chunked copies between stand-in buffers.
#include "device/host_moves.hpp"

#include <algorithm>
#include <cstring>

#include "device/host_tasks.hpp"
#include "refit/time/deadline.hpp"

namespace refit::device {

double HostMoves::run(std::uint64_t bytes, bool pinned) {
  if (bytes != 0 && !device_) {
    device_ = transport::SharedMemory::create(kChunkBytes, "the offload stand-in");
    pinned_ = transport::SharedMemory::create(kChunkBytes, "the pinned stand-in");
    std::memset(device_.bytes().data(), 1, kChunkBytes);
    std::memset(pinned_.bytes().data(), 1, kChunkBytes);
  }
  const Clock::time_point start = Clock::now();
  for (std::uint64_t done = 0; done < bytes; done += kChunkBytes) {
    const std::uint64_t chunk = std::min(kChunkBytes, bytes - done);
    if (pinned) {
      parallel_copy(pinned_.bytes().data(), device_.bytes().data(), chunk, pool_);
    } else {
      const auto pages = transport::SharedMemory::create(chunk, "the pageable stand-in");
      parallel_copy(pages.bytes().data(), device_.bytes().data(), chunk, pool_);
    }
  }
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace refit::device
