// The stages of one process's control thread: on its own clock, and told to the backend.
#pragma once

#include <cstdint>
#include <string_view>

#include "refit/device/backend.hpp"
#include "refit/time/timeline.hpp"

namespace refit::run {

class Stages {
 public:
  Stages(device::Backend& backend, Timeline& timeline) : backend_(backend), timeline_(timeline) {}
  void start() { timeline_.start(); }
  /// Ends the current stage and makes `name`, a string literal, current.
  void enter(std::string_view name) {
    timeline_.enter(name);
    backend_.stage(name);
  }
  void add(std::uint64_t bytes, std::uint64_t launches) { timeline_.add(bytes, launches); }
  void stop() {
    timeline_.stop();
    backend_.stage({});
  }
  [[nodiscard]] const Timeline& timeline() const noexcept { return timeline_; }

 private:
  device::Backend& backend_;
  Timeline& timeline_;
};

}  // namespace refit::run
