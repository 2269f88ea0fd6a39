// Closed accounting of one control thread: every instant belongs to the current stage or to none.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "refit/time/deadline.hpp"

namespace refit {

struct StageTotal {
  std::string_view name;  ///< a string literal
  double seconds = 0;
  std::uint64_t bytes = 0;     ///< that the stage needed to move, read + written
  std::uint64_t launches = 0;  ///< calls into the data path (on a GPU: kernel launches)
};

/// Switches between stages on one thread. Stages never nest, so their sum plus unattributed() is wall()
/// exactly. Entering a stage again adds to it. Calls out of order (enter() before start(), add() without a
/// current stage) are an Error(runtime): their time or bytes would otherwise be lost silently.
class Timeline {
 public:
  /// Forgets what was recorded and starts the wall clock; no stage is current.
  void start();
  /// Ends the current stage and makes `name` current.
  void enter(std::string_view name);
  /// Adds to the current stage.
  void add(std::uint64_t bytes, std::uint64_t launches);
  /// Ends the current stage and leaves none current.
  void leave();
  /// Ends the current stage and stops the wall clock.
  void stop();

  /// In the order in which they were first entered.
  [[nodiscard]] const std::vector<StageTotal>& stages() const noexcept { return stages_; }
  /// Seconds from start() to stop(); 0 before stop().
  [[nodiscard]] double wall() const noexcept { return wall_; }
  /// The part of wall() in which no stage was current.
  [[nodiscard]] double unattributed() const noexcept;

 private:
  void close(Clock::time_point now);
  std::vector<StageTotal> stages_;
  std::size_t current_ = kNone;
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  bool running_ = false;
  Clock::time_point start_{}, entered_{};
  double wall_ = 0;
};

}  // namespace refit
