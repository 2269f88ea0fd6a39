// The other generator ranks' parameters, where they can be reached directly.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "refit/device/backend.hpp"
#include "refit/transport/group.hpp"

namespace refit::ranks {

class Peers {
 public:
  /// Collective. `own`: this rank's parameters, null without any. Error(runtime) naming the rank whose memory
  /// cannot be opened: it is on another host, or its GPU cannot be reached from this one.
  Peers(transport::Group& group, device::Backend& backend, const device::Memory* own, const std::string& host,
        Deadline deadline);
  /// Of a process; empty for one without parameters, and for this one.
  [[nodiscard]] std::span<std::byte> of(std::uint32_t process) const {
    return opened_[process] == nullptr ? std::span<std::byte>{} : opened_[process]->bytes();
  }

 private:
  std::vector<std::unique_ptr<device::Memory>> opened_;
};

}  // namespace refit::ranks
