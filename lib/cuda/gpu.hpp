// Which GPU, and whether it can do what is chosen.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "refit/device/backend.hpp"

namespace refit::cuda {

struct Gpu {
  int ordinal = 0;
  cudaDeviceProp properties{};

  [[nodiscard]] std::string name() const { return properties.name; }  ///< a MIG slice's says so
  [[nodiscard]] bool is_mig_slice() const { return name().find(" MIG ") != std::string::npos; }
};

/// Makes the chosen GPU this thread's current device. Error(runtime) with one sentence where that, or the
/// chosen transport, cannot work.
[[nodiscard]] Gpu open_gpu(const device::Choice& choice);

/// "13.0" of CUDA's 13000.
[[nodiscard]] std::string version_text(int version);

}  // namespace refit::cuda
