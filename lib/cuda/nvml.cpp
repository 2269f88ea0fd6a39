// libnvidia-ml.so.1, opened at run time. Prototypes and numbers are those of the NVML API reference (nvml.h),
// which every driver keeps.
#include "cuda/nvml.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <optional>

namespace refit::cuda {
namespace {

using Answer = int;
constexpr Answer kSuccess = 0;
using Device = void*;

constexpr int kClockSm = 1, kClockMemory = 2, kTemperatureGpu = 0;
constexpr unsigned kVersionSize = 80;

/// nvmlClocksEventReason..., each without the prefix.
struct Reason {
  unsigned long long bit;
  const char* name;
};
constexpr std::array kReasons = {Reason{0x001, "GpuIdle"},
                                 Reason{0x002, "ApplicationsClocksSetting"},
                                 Reason{0x004, "SwPowerCap"},
                                 Reason{0x008, "HwSlowdown"},
                                 Reason{0x010, "SyncBoost"},
                                 Reason{0x020, "SwThermalSlowdown"},
                                 Reason{0x040, "HwThermalSlowdown"},
                                 Reason{0x080, "HwPowerBrakeSlowdown"},
                                 Reason{0x100, "DisplayClockSetting"}};

}  // namespace

Nvml::Nvml(const std::string& pci_bus_id) noexcept {
  library_ = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) return;
  const auto init = find<Answer (*)()>("nvmlInit_v2");
  if (init == nullptr || init() != kSuccess) {
    ::dlclose(library_);
    library_ = nullptr;
    return;
  }
  const auto by_bus_id = find<Answer (*)(const char*, Device*)>("nvmlDeviceGetHandleByPciBusId_v2");
  if (by_bus_id == nullptr || by_bus_id(pci_bus_id.c_str(), &device_) != kSuccess) device_ = nullptr;
}

Nvml::~Nvml() {
  if (library_ == nullptr) return;
  if (const auto shutdown = find<Answer (*)()>("nvmlShutdown")) (void)shutdown();
  ::dlclose(library_);
}

template <typename Function>
Function Nvml::find(const char* name) const noexcept {
  return library_ == nullptr ? nullptr : reinterpret_cast<Function>(::dlsym(library_, name));
}

std::string Nvml::driver_version() const {
  std::array<char, kVersionSize> version{};
  const auto get = find<Answer (*)(char*, unsigned)>("nvmlSystemGetDriverVersion");
  if (get == nullptr || get(version.data(), kVersionSize) != kSuccess) return {};
  return version.data();
}

device::Clocks Nvml::clocks() const {
  device::Clocks clocks;
  if (device_ == nullptr) return clocks;
  // Most calls take the device, perhaps a kind, and the place of one number.
  const auto number_of = [this](const char* name, auto... kind) -> std::optional<std::uint64_t> {
    unsigned number = 0;
    const auto get = find<Answer (*)(Device, decltype(kind)..., unsigned*)>(name);
    if (get == nullptr || get(device_, kind..., &number) != kSuccess) return std::nullopt;
    return number;
  };
  clocks.sm_mhz = number_of("nvmlDeviceGetClockInfo", kClockSm);
  clocks.memory_mhz = number_of("nvmlDeviceGetClockInfo", kClockMemory);
  clocks.temperature_c = number_of("nvmlDeviceGetTemperature", kTemperatureGpu);
  clocks.power_mw = number_of("nvmlDeviceGetPowerUsage");

  using GetReasons = Answer (*)(Device, unsigned long long*);
  auto get_reasons = find<GetReasons>("nvmlDeviceGetCurrentClocksEventReasons");
  // Its name in drivers before 535.
  if (get_reasons == nullptr) get_reasons = find<GetReasons>("nvmlDeviceGetCurrentClocksThrottleReasons");
  unsigned long long bits = 0;
  if (get_reasons != nullptr && get_reasons(device_, &bits) == kSuccess) {
    for (const Reason& reason : kReasons) {
      if ((bits & reason.bit) != 0) clocks.throttle_reasons.emplace_back(reason.name);
    }
  }
  return clocks;
}

}  // namespace refit::cuda
