// Host memory that another process can map from a descriptor: the road a CUDA allocation takes later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "refit/transport/unix_channel.hpp"

namespace refit::transport {

/// A mapped memfd, page aligned, zero when new. Nothing has a name in any file system, so nothing outlives
/// the processes that hold it.
class SharedMemory {
 public:
  SharedMemory() = default;
  /// Creates and maps `bytes`; the file is rounded up to pages. More than available_memory() is refused, and
  /// the pages are reserved, so that a full machine is an Error(runtime) with the numbers (asked, available)
  /// here and not a SIGBUS later. Sealed, so that no holder can shrink it under another one's mapping. Zero
  /// bytes give a descriptor without a mapping. `what` names it in messages.
  [[nodiscard]] static SharedMemory create(std::uint64_t bytes, const std::string& what);
  /// Maps a descriptor received from a peer; Error(runtime) when it is smaller than `bytes`, or not sealed
  /// against shrinking as create() does.
  [[nodiscard]] static SharedMemory map(UniqueFd fd, std::uint64_t bytes, const std::string& what);
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {data_, size_}; }
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  /// True when something is mapped.
  [[nodiscard]] explicit operator bool() const noexcept { return data_ != nullptr; }

 private:
  SharedMemory(UniqueFd fd, std::uint64_t bytes, const std::string& what);
  UniqueFd fd_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Bytes of physical memory that new allocations can use now: MemAvailable, or what a cgroup still allows if
/// less.
[[nodiscard]] std::uint64_t available_memory();

}  // namespace refit::transport
