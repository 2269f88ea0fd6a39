// The copies to and from host memory around one refit, of one rank's share.
#pragma once

#include "refit/device/backend.hpp"
#include "refit/plan/switches.hpp"
#include "refit/run/bench.hpp"

namespace refit::run {

struct HostSeconds {
  double offload = 0, swap = 0;
};

[[nodiscard]] inline HostSeconds move_host_traffic(const HostTraffic& traffic, const plan::Switches& switches,
                                                   device::Backend& backend) {
  const bool pinned = switches.reference_swap == plan::ReferenceSwap::pinned;
  HostSeconds seconds;
  seconds.swap = backend.move_to_host(traffic.reference_swap_bytes, pinned) +
                 backend.move_from_host(traffic.reference_swap_bytes, pinned);
  const bool slim = switches.offload == plan::Offload::slim;
  seconds.offload =
      backend.move_to_host(slim ? traffic.offload_slim_bytes : traffic.offload_full_bytes, true);
  return seconds;
}

}  // namespace refit::run
