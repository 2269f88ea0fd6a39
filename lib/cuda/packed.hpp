// What is judged of a packed bucket: refit/verify's check_packed, as items of a comparison.
#pragma once

#include <cstddef>
#include <span>

#include "cuda/comparison.hpp"
#include "refit/plan/wire.hpp"

namespace refit::cuda {

/// `tally` counts by entry of the wire.
void add_packed(const plan::Plan& plan, const plan::Wire& wire, std::size_t bucket,
                std::span<const std::byte> packed, std::span<const std::byte> sources, verify::Tally& tally,
                Comparison& comparison);

}  // namespace refit::cuda
