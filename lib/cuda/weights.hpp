// The list of boxes whose weights a kernel fills or updates.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "cuda/tiles.hpp"
#include "refit/device/weights.hpp"

namespace refit::cuda {

using WeightKey = std::function<std::uint64_t(const TensorSpec& tensor)>;
[[nodiscard]] Work<kernels::Weights> weights_of(std::span<const device::WeightBox> boxes,
                                                const WeightKey& key_of);

}  // namespace refit::cuda
