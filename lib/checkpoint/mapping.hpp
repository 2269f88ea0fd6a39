// A file in memory that may be cut short while it is read.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace refit::checkpoint {

/// Address ranges whose pages may vanish with the file behind them. The first one installs a handler for
/// SIGBUS: the protection belongs to whoever maps, and no program can forget it. Its rule is that of
/// libwayland's wl_shm: a fault inside a range puts zeros there and marks the range; any other goes to the
/// action that was there before, a sanitizer's or the default. Ranges live in a list that only grows and
/// whose nodes are used again, so there is no limit to run into and nothing that the handler has to wait for.
class FaultRange {
 public:
  FaultRange() = default;
  ~FaultRange();
  FaultRange(const FaultRange&) = delete;
  FaultRange& operator=(const FaultRange&) = delete;

  void guard(std::span<const std::byte> bytes);
  /// Before the range is unmapped.
  void release() noexcept;
  /// Whether zeros stand where the file had bytes.
  [[nodiscard]] bool has_faulted() const noexcept;

  struct Node;

 private:
  Node* node_ = nullptr;
};

/// A whole regular file, read-only. The mapping outlives the descriptor.
class Mapping {
 public:
  /// Error(input) when it cannot be opened or mapped, or is no regular file.
  explicit Mapping(const std::string& path);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  /// Error(runtime) when `path` is no longer the file that was mapped, or not as long, or was written to
  /// since (its modification time, in the kernel's steps of a few milliseconds).
  void check_unchanged() const;

 private:
  std::string path_;
  struct stat opened_ {};
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  FaultRange range_;
};

}  // namespace refit::checkpoint
