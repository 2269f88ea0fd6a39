// How many tensors one call of the quantizer takes.
#pragma once

#include <cstddef>
#include <limits>

#include "refit/plan/switches.hpp"

namespace refit::run {

/// quantize=batched: the three projections of up to 16 experts (NeMo-RL PR 3804).
[[nodiscard]] constexpr std::size_t tensors_per_call(plan::Quantize how) noexcept {
  switch (how) {
    case plan::Quantize::per_tensor:
      return 1;
    case plan::Quantize::batched:
      return 16 * 3;
    case plan::Quantize::per_bucket:
      return std::numeric_limits<std::size_t>::max();
  }
  return 1;
}

}  // namespace refit::run
