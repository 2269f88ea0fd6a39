// Which GPU ran, and whether its clocks held.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "refit/base/bytes.hpp"
#include "report/sections.hpp"
#include "report/text.hpp"

namespace refit::report {
namespace {

/// An idle GPU lowers its clocks; nothing holds them down then.
constexpr const char* kIdle = "GpuIdle";

std::string count_text(const std::optional<std::uint64_t>& value) {
  return value ? fmt::format("{}", *value) : "?";
}

std::string watts(const std::optional<std::uint64_t>& milliwatts) {
  return milliwatts ? fmt::format("{:.0f}", static_cast<double>(*milliwatts) / 1000) : "?";
}

std::string device_line(const Report& report) {
  const run::BenchResult& result = *report.result;
  const device::Description& device = result.device;
  const std::string transport =
      report.ranks ? report.ranks->exchange : std::string(device::name_of(result.backend.transport));
  std::string text =
      fmt::format("Backend {}, transport {}: {}GPU {}, {}", device::name_of(result.backend.kind), transport,
                  on_ranks(report) ? reporting_rank(report) + "'s " : "", result.backend.ordinal,
                  device.name.empty() ? "of unknown name" : device.name);
  if (!device.compute_capability.empty()) {
    text += fmt::format(", compute capability {}", device.compute_capability);
  }
  if (device.multiprocessors) text += fmt::format(", {} multiprocessors", *device.multiprocessors);
  if (device.memory_bytes) text += fmt::format(", {}", format_bytes(*device.memory_bytes));
  if (device.l2_bytes) text += fmt::format(" and {} of L2", format_bytes(*device.l2_bytes));
  if (!device.driver.empty()) text += fmt::format("; driver {}", device.driver);
  if (!device.runtime.empty()) text += fmt::format(", CUDA {}", device.runtime);
  return wrapped(text + ".", 2);
}

/// What held the clocks down before or after the steps.
std::vector<std::string> limits(const run::BenchResult& result) {
  std::vector<std::string> names;
  for (const device::Clocks* clocks : {&result.clocks_before, &result.clocks_after}) {
    for (const std::string& name : clocks->throttle_reasons) {
      if (name != kIdle && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

std::string clocks_line(const run::BenchResult& result) {
  const device::Clocks &before = result.clocks_before, &after = result.clocks_after;
  if (!are_known(before) && !are_known(after)) return "Its clocks are not known: NVML did not answer.\n";
  const std::vector<std::string> names = limits(result);
  return wrapped(
      fmt::format("Before -> after the steps: SM {} -> {} MHz, memory {} -> {} MHz, {} -> {} C, {} -> "
                  "{} W; {}.",
                  count_text(before.sm_mhz), count_text(after.sm_mhz), count_text(before.memory_mhz),
                  count_text(after.memory_mhz), count_text(before.temperature_c),
                  count_text(after.temperature_c), watts(before.power_mw), watts(after.power_mw),
                  names.empty() ? "not throttled" : fmt::format("throttled by {}", fmt::join(names, ", "))),
      2);
}

}  // namespace

std::string device_section(const Report& report) {
  if (!is_gpu(*report.result)) return "";
  return device_line(report) + clocks_line(*report.result);
}

}  // namespace refit::report
