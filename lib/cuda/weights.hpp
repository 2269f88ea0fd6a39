// The list of tensors whose weights a kernel fills or updates.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "cuda/tiles.hpp"
#include "refit/plan/plan.hpp"

namespace refit::cuda {

using WeightKey = std::function<std::uint64_t(const plan::Source& source)>;
[[nodiscard]] Work<kernels::Weights> weights_of(const plan::Plan& plan, std::span<std::byte> sources,
                                                const WeightKey& key_of);

}  // namespace refit::cuda
