// How many tensors one call of the quantizer takes.
#pragma once

#include <cstddef>

#include "refit/plan/switches.hpp"

namespace refit::run {

/// quantize=batched: the three projections of up to 16 experts (NeMo-RL PR 3804); per-tensor: one.
[[nodiscard]] constexpr std::size_t tensors_per_call(plan::Quantize how) noexcept {
  return how == plan::Quantize::batched ? 16 * 3 : 1;
}

}  // namespace refit::run
