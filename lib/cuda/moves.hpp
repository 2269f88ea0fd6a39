// Traffic between GPU and host memory around a refit: optimizer offload and reference swap.
#pragma once

#include <cstdint>
#include <utility>

#include "cuda/buffers.hpp"
#include "cuda/session.hpp"

namespace refit::cuda {

/// Any number of bytes, through one window of each memory. Returns seconds; waits before and after.
class Moves {
 public:
  explicit Moves(SessionPtr session) : session_(std::move(session)) {}

  [[nodiscard]] double to_host(std::uint64_t bytes, bool pinned);
  [[nodiscard]] double from_host(std::uint64_t bytes, bool pinned);
  /// GPU memory of the window.
  [[nodiscard]] std::uint64_t window_bytes() const noexcept { return device_.size(); }

 private:
  [[nodiscard]] double move(std::uint64_t bytes, bool is_pinned, cudaMemcpyKind direction);
  [[nodiscard]] double pinned(std::uint64_t bytes, cudaMemcpyKind direction);
  [[nodiscard]] double pageable(std::uint64_t bytes, cudaMemcpyKind direction);
  void copy(std::byte* host, std::uint64_t bytes, cudaMemcpyKind direction);

  SessionPtr session_;
  DeviceBuffer device_;
  PinnedBuffer pinned_;
};

}  // namespace refit::cuda
