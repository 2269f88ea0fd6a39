// The machine that a bench ran on.
#include <algorithm>
#include <vector>

#include "refit/project/platform.hpp"
#include "refit/time/statistics.hpp"

namespace refit::project {
namespace {

constexpr double kEveryone = 65536;

Figure measured(double value) {
  return {value, Basis::measured, "this run"};
}

Figure assumed(double value, const char* why) {
  return {value, Basis::assumed, why};
}

double median_of(const std::vector<double>& samples) {
  return summarize(samples).median;
}

}  // namespace

Platform measured_platform(const run::CopyBandwidth& copy) {
  Platform platform;
  platform.name = "this";
  platform.title = "this machine as measured";
  const Figure whole = assumed(1, "measured, so nothing is taken off");
  platform.memory_bandwidth = measured(copy.bytes_per_second);
  platform.memory_efficiency = platform.peer_efficiency = platform.network_efficiency = whole;
  platform.peer_bandwidth = copy.peer.empty() ? assumed(copy.bytes_per_second / 2, "nobody to reach")
                                              : measured(median_of(copy.peer));
  platform.network_bandwidth = assumed(platform.peer_bandwidth.value, "every rank is on this machine");
  platform.host_bandwidth = copy.to_host.empty()
                                ? assumed(copy.bytes_per_second / 2, "no device: copies within memory")
                                : measured(std::min(median_of(copy.to_host), median_of(copy.from_host)));
  platform.kernel_efficiency = assumed(1, "as on an H200");
  platform.shared_efficiency =
      assumed(copy.threads == 0 ? 0.86 : 1, "as on an H200; on a CPU nothing is lost");
  platform.kernel_s = assumed(copy.threads == 0 ? 3e-6 : 1e-9, "the usual least time of a small kernel");
  platform.host_cost.figure = assumed(1, "a host like the one where the stack's costs were found");
  platform.gpus_per_node = platform.gpus_per_domain = assumed(kEveryone, "all ranks are on this machine");
  return platform;
}

}  // namespace refit::project
