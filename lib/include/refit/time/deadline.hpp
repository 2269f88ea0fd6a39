// A point in time that every wait carries.
#pragma once

#include <chrono>

namespace refit {

using Clock = std::chrono::steady_clock;

class Deadline {
 public:
  /// Negative and not-a-number mean now; more than a year means a year, so that no wait is for ever.
  [[nodiscard]] static Deadline after(std::chrono::duration<double> seconds) noexcept;
  explicit Deadline(Clock::time_point at) noexcept : at_(at) {}
  [[nodiscard]] Deadline later(Clock::duration by) const noexcept { return Deadline(at_ + by); }
  [[nodiscard]] bool passed() const noexcept { return Clock::now() >= at_; }
  /// Milliseconds left for poll(2), rounded up: 0 only when passed, never negative (a negative value would
  /// wait for ever).
  [[nodiscard]] int poll_milliseconds() const noexcept;

 private:
  Clock::time_point at_;
};

}  // namespace refit
