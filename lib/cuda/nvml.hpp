// The GPU's clocks, temperature and power, where NVIDIA's management library is installed.
#pragma once

#include <string>

#include "refit/device/backend.hpp"

namespace refit::cuda {

/// Reads, never sets. Whatever the library, the GPU or its owner withholds is empty.
class Nvml {
 public:
  /// `pci_bus_id` as cudaDeviceGetPCIBusId gives it.
  explicit Nvml(const std::string& pci_bus_id) noexcept;
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  [[nodiscard]] std::string driver_version() const;
  [[nodiscard]] device::Clocks clocks() const;

 private:
  template <typename Function>
  [[nodiscard]] Function find(const char* name) const noexcept;

  void* library_ = nullptr;
  void* device_ = nullptr;
};

}  // namespace refit::cuda
