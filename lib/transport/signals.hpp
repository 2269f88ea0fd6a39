// What wakes a thread that polls: another thread, or the launcher that asks this process to end.
#pragma once

#include <chrono>

#include "refit/transport/unix_channel.hpp"

namespace refit::transport {

/// A descriptor that is readable from wake() to clear().
class Wakeup {
 public:
  Wakeup();
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  void wake() const noexcept;
  void clear() const noexcept;

 private:
  UniqueFd fd_;
};

/// SIGTERM as a descriptor that becomes readable. From here on the signal is blocked in the thread that makes
/// this, and in those that it starts.
class LauncherSignal {
 public:
  static constexpr const char* kSentence = "ended by its launcher (SIGTERM)";
  /// How long the signal may be ahead of the news of the rank that it is about.
  static constexpr std::chrono::milliseconds kNews{300};

  LauncherSignal();
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

 private:
  UniqueFd fd_;
};

}  // namespace refit::transport
