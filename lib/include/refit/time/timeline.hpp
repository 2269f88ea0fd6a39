// Closed accounting of one control thread: every instant belongs to the current stage or to none.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
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

/// One stay in a stage, in seconds from start().
struct Span {
  std::uint32_t stage = 0;  ///< index into the stages
  double begin = 0, end = 0;
  std::uint64_t bytes = 0, launches = 0;
};

/// What a timeline kept of its last run, to be looked at elsewhere.
struct Recording {
  std::vector<std::string> stages;
  std::vector<Span> spans;     ///< in the order of time
  std::uint64_t left_out = 0;  ///< spans after those, for which there was no room
  double wall = 0;
  Clock::time_point start{};  ///< the steady clock's, which all processes of a host share
};

/// Switches between stages on one thread. Stages never nest, so their sum plus unattributed() is wall()
/// exactly. Entering a stage again adds to it. Calls out of order (enter() before start(), add() without a
/// current stage) are an Error(runtime): their time or bytes would otherwise be lost silently.
class Timeline {
 public:
  /// Keeps the first `most` spans of each run from the next start() on; the memory for them is taken now.
  void keep_spans(std::size_t most);
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
  /// Of the last run, after stop(); without spans unless they are kept.
  [[nodiscard]] Recording recording() const;

 private:
  void close(Clock::time_point now);
  void keep(Clock::time_point now);
  std::vector<StageTotal> stages_;
  std::size_t current_ = kNone;
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  bool running_ = false;
  Clock::time_point start_{}, entered_{};
  double wall_ = 0;
  std::vector<Span> spans_;
  std::size_t most_spans_ = 0;
  std::uint64_t left_out_ = 0;
  std::uint64_t bytes_before_ = 0, launches_before_ = 0;  ///< of the current stage when it was entered
};

}  // namespace refit
