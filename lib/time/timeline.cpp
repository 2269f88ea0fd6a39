// Stage switching: one clock reading ends a stage and begins the next, so that no time falls between them.
#include "refit/time/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "refit/base/error.hpp"

namespace refit {

namespace {

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

void Timeline::start() {
  stages_.clear();
  current_ = kNone;
  running_ = true;
  wall_ = 0;
  start_ = Clock::now();
}

void Timeline::enter(std::string_view name) {
  if (!running_) fail_runtime(fmt::format("stage \"{}\" was entered while its timeline was stopped", name));
  const Clock::time_point now = Clock::now();
  close(now);
  const auto known =
      std::find_if(stages_.begin(), stages_.end(), [&](const StageTotal& s) { return s.name == name; });
  current_ = static_cast<std::size_t>(known - stages_.begin());
  if (known == stages_.end()) stages_.push_back({.name = name});
  entered_ = now;
}

void Timeline::add(std::uint64_t bytes, std::uint64_t launches) {
  if (current_ == kNone) {
    fail_runtime(fmt::format("{} bytes and {} launches were added outside of any stage", bytes, launches));
  }
  stages_[current_].bytes += bytes;
  stages_[current_].launches += launches;
}

void Timeline::leave() {
  close(Clock::now());
}

void Timeline::stop() {
  if (!running_) fail_runtime("a timeline was stopped that was not running");
  const Clock::time_point now = Clock::now();
  close(now);
  running_ = false;
  wall_ = seconds_between(start_, now);
}

double Timeline::unattributed() const noexcept {
  double attributed = 0;
  for (const StageTotal& stage : stages_) attributed += stage.seconds;
  // The stages' sum carries rounding errors of its own; a rest of -1e-16 s is none.
  return std::max(0.0, wall_ - attributed);
}

void Timeline::close(Clock::time_point now) {
  if (current_ == kNone) return;
  stages_[current_].seconds += seconds_between(entered_, now);
  current_ = kNone;
}

}  // namespace refit
