// NVTX ranges always; events while a profile is taken.
#include "cuda/stages.hpp"

#include <nvtx3/nvToolsExt.h>

#include <algorithm>

namespace refit::cuda {

Stages::~Stages() {
  if (range_open_) ::nvtxRangePop();
}

void Stages::enter(std::string_view name) {
  if (range_open_) ::nvtxRangePop();
  current_ = name;
  range_open_ = !current_.empty();
  if (range_open_) ::nvtxRangePushA(current_.c_str());
  session_->enter_stage(name);
  if (profiling_) mark();
}

void Stages::profile(bool on) {
  if (on) marks_.clear();
  if (on || profiling_) mark();
  profiling_ = on;
}

void Stages::mark() {
  if (marks_.size() == events_.size()) events_.emplace_back(Event::Timing::on);
  events_[marks_.size()].record(session_->stream());
  marks_.push_back(current_);
}

std::vector<device::StageTime> Stages::times() {
  profile(false);
  session_->wait();
  std::vector<device::StageTime> times;
  for (std::size_t i = 0; i + 1 < marks_.size(); ++i) {
    const std::string& name = marks_[i];
    if (name.empty()) continue;
    auto found = std::find_if(times.begin(), times.end(),
                              [&](const device::StageTime& time) { return time.name == name; });
    if (found == times.end()) found = times.insert(times.end(), {name, 0});
    found->seconds += Event::seconds(events_[i], events_[i + 1]);
  }
  marks_.clear();
  return times;
}

}  // namespace refit::cuda
