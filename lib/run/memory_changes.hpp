// What a process held over time within one refit, as a line of steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "refit/time/deadline.hpp"

namespace refit::run {

/// Bytes held from then on.
struct MemoryChange {
  Clock::time_point at;
  std::uint64_t bytes;
};

/// Keeps a bounded number of changes. Where there are more, the shortest steps are left out so that the line
/// is never below what was held, and every step above both its neighbours, the highest of all among them, is
/// kept. Takes no memory after reserve(), and a moment per change.
class MemoryChanges {
 public:
  /// `most` is at least 8: the first and the last among them. Nothing is kept before.
  void reserve(std::size_t most);
  [[nodiscard]] bool running() const noexcept { return running_; }
  /// Forgets what was kept.
  void begin(std::uint64_t bytes, Clock::time_point at) noexcept;
  /// Between begin() and end(), in the order of time.
  void note(std::uint64_t bytes, Clock::time_point at) noexcept;
  void end(Clock::time_point at) noexcept;
  /// After end(): the first is what was held at the begin, the last what was held at the end.
  [[nodiscard]] std::span<const MemoryChange> changes() const noexcept { return changes_; }

 private:
  void thin() noexcept;
  std::vector<MemoryChange> changes_;
  std::vector<Clock::duration> lengths_;  ///< room for thin()
  std::size_t most_ = 0;
  bool running_ = false;
};

}  // namespace refit::run
