// What every replay is made of: time of host threads, and work on resources that others use, too.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "project/engine.hpp"
#include "project/replayed.hpp"
#include "refit/project/platform.hpp"
#include "refit/project/stack.hpp"

namespace refit::project {

class Replaying {
 protected:
  using Activity = Engine::Activity;

  Replaying(const Platform& platform, const Stack& stack) : platform_(platform), stack_(stack) {}

  /// Seconds of a host thread.
  [[nodiscard]] double cost(Cost what) const {
    return stack_.seconds(what) * platform_.host_cost.figure.value;
  }
  /// The least seconds that so many kernels take on the GPU.
  [[nodiscard]] double kernels(std::uint64_t count) const {
    return static_cast<double>(count) * platform_.kernel_s.value;
  }

  Activity host(double seconds, Part part, std::initializer_list<Activity> after) {
    return work(Engine::kNoResource, seconds, 0, part, after);
  }
  Activity work(Engine::Resource resource, double units, double least_s, Part part,
                std::initializer_list<Activity> after) {
    return engine_.add({resource, units, least_s, static_cast<std::uint32_t>(part)},
                       {after.begin(), after.size()});
  }

  const Platform& platform_;
  const Stack& stack_;
  Engine engine_;
};

}  // namespace refit::project
