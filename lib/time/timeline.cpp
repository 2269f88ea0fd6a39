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

void Timeline::keep_spans(std::size_t most) {
  most_spans_ = most;
  spans_.resize(most);  // pages are touched now and not within a refit
  spans_.clear();
}

void Timeline::start() {
  stages_.clear();
  spans_.clear();
  left_out_ = 0;
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
  bytes_before_ = stages_[current_].bytes;
  launches_before_ = stages_[current_].launches;
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

Recording Timeline::recording() const {
  Recording recording{{}, spans_, left_out_, wall_, start_};
  for (const StageTotal& stage : stages_) recording.stages.emplace_back(stage.name);
  return recording;
}

void Timeline::close(Clock::time_point now) {
  if (current_ == kNone) return;
  stages_[current_].seconds += seconds_between(entered_, now);
  if (most_spans_ > 0) keep(now);
  current_ = kNone;
}

void Timeline::keep(Clock::time_point now) {
  if (spans_.size() == most_spans_) {
    ++left_out_;
    return;
  }
  const StageTotal& stage = stages_[current_];
  spans_.push_back({static_cast<std::uint32_t>(current_), seconds_between(start_, entered_),
                    seconds_between(start_, now), stage.bytes - bytes_before_,
                    stage.launches - launches_before_});
}

}  // namespace refit
