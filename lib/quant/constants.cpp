// What each rounding mode sets the vectorised path's constants to.
#include "quant/constants.hpp"

namespace refit::quant {

Constants constants_of(const Options& options) noexcept {
  std::uint16_t add = 31;  // amax / 448, rounded up: the fraction exceeds 0x60
  std::uint16_t subtract = 8;
  std::uint16_t last = 0x7F7F;
  switch (options.rounding) {
    case Rounding::flashinfer:
    case Rounding::flashinfer_cuda:
    case Rounding::torchao_rceil:
      break;
    case Rounding::torchao_floor:
      add = 0;
      break;
    case Rounding::torchao_even:
      add = 8;
      last = 0x7F77;  // beyond it the rounded maximum is infinite
      break;
    case Rounding::torchao_ceil:
      add = 127;
      break;
    case Rounding::vllm_floor:
      add = subtract = 0;
      break;
  }
  const bool never_zero = options.zero_scale == ZeroScale::one || options.rounding == Rounding::vllm_floor;
  const auto first = static_cast<std::uint16_t>((11 + subtract) * 128 - add);
  return {add, subtract, static_cast<std::uint16_t>(never_zero), first,
          static_cast<std::uint16_t>(last - first)};
}

}  // namespace refit::quant
