// Stages as profilers see them, and as the GPU's own clock does.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cuda/buffers.hpp"
#include "cuda/session.hpp"
#include "refit/device/backend.hpp"

namespace refit::cuda {

class Stages {
 public:
  explicit Stages(SessionPtr session) : session_(std::move(session)) {}
  ~Stages();
  Stages(const Stages&) = delete;
  Stages& operator=(const Stages&) = delete;

  /// Ends the stage before and begins this one; an empty name only ends.
  void enter(std::string_view name);
  /// Begins a profile, which marks every switch with an event, or ends it.
  void profile(bool on);
  /// Seconds by stage of the last profile, in the order in which the stages first began. Ends it, and waits.
  [[nodiscard]] std::vector<device::StageTime> times();

 private:
  void mark();

  SessionPtr session_;
  std::string current_;
  bool range_open_ = false;
  bool profiling_ = false;
  std::vector<std::string> marks_;  ///< the stage that begins at each event
  std::vector<Event> events_;       ///< perhaps more: the next profile uses them again
};

}  // namespace refit::cuda
