// Deadlines: from seconds, and as poll(2) wants them.
#include "refit/time/deadline.hpp"

#include <algorithm>
#include <limits>

namespace refit {

Deadline Deadline::after(std::chrono::duration<double> seconds) noexcept {
  constexpr std::chrono::duration<double> year = std::chrono::hours(24 * 365);
  // Written so that not-a-number takes the first branch; beyond a year the cast below could overflow.
  if (!(seconds.count() > 0)) return Deadline(Clock::now());
  return Deadline(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::min(seconds, year)));
}

int Deadline::poll_milliseconds() const noexcept {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(at_ - Clock::now()).count();
  return static_cast<int>(std::clamp<decltype(left)>(left, 0, std::numeric_limits<int>::max()));
}

}  // namespace refit
