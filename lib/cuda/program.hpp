// A list of tasks whose descriptors lie on the GPU already.
#pragma once

#include "cuda/buffers.hpp"
#include "cuda/non_finite.hpp"
#include "kernels/grouped.hpp"
#include "refit/device/backend.hpp"

namespace refit::cuda {

struct Program final : device::Program {
  DeviceBuffer blob;
  kernels::GroupedShape shape;
  NonFinite::Names names;
};

}  // namespace refit::cuda
