// The machine: its GPU, how fast it copies, and the environment.
#include "refit/device/backend.hpp"
#include "report/json_parts.hpp"
#include "report/json_values.hpp"

namespace refit::report {
namespace {

/// Where no clock is known, nobody could be asked what holds them down either.
OrderedJson clocks_json(const device::Clocks& clocks) {
  OrderedJson json = {{"sm_mhz", optional(clocks.sm_mhz)},
                      {"memory_mhz", optional(clocks.memory_mhz)},
                      {"temperature_c", optional(clocks.temperature_c)},
                      {"power_mw", optional(clocks.power_mw)}};
  json["throttle_reasons"] = are_known(clocks) ? OrderedJson(clocks.throttle_reasons) : OrderedJson(nullptr);
  return json;
}

}  // namespace

OrderedJson device_json(const run::BenchResult& result) {
  if (!is_gpu(result)) return nullptr;
  const device::Description& device = result.device;
  return {{"ordinal", result.backend.ordinal},
          {"name", known(device.name)},
          {"compute_capability", known(device.compute_capability)},
          {"memory_bytes", optional(device.memory_bytes)},
          {"multiprocessors", optional(device.multiprocessors)},
          {"l2_bytes", optional(device.l2_bytes)},
          {"driver", known(device.driver)},
          {"runtime", known(device.runtime)},
          {"clocks_before", clocks_json(result.clocks_before)},
          {"clocks_after", clocks_json(result.clocks_after)}};
}

OrderedJson copy_json(const run::CopyBandwidth& copy) {
  if (copy.bytes_per_second <= 0) return nullptr;
  return {{"bytes_per_second", number(copy.bytes_per_second)},
          {"samples", numbers(copy.samples)},
          {"array_bytes", copy.array_bytes},
          {"threads", copy.threads == 0 ? OrderedJson(nullptr) : OrderedJson(copy.threads)},
          {"to_host_bytes_per_second", optional(median_of(copy.to_host))},
          {"to_host_samples", numbers(copy.to_host)},
          {"from_host_bytes_per_second", optional(median_of(copy.from_host))},
          {"from_host_samples", numbers(copy.from_host)},
          {"peer_bytes_per_second", optional(median_of(copy.peer))},
          {"peer_samples", numbers(copy.peer)}};
}

OrderedJson environment_json(const Environment& environment) {
  return {{"version", environment.build.version},
          {"compiler", environment.build.compiler},
          {"build_type", environment.build.build_type},
          {"git_commit", optional(environment.build.git_commit)},
          {"git_dirty", optional(environment.build.git_dirty)},
          {"cpu_model", known(environment.cpu_model)},
          {"logical_cpus", environment.logical_cpus},
          {"usable_cpus", environment.usable_cpus},
          {"memory_total_bytes", environment.memory_total_bytes},
          {"kernel", known(environment.kernel)},
          {"argv", environment.argv},
          {"date_utc", environment.date_utc}};
}

}  // namespace refit::report
