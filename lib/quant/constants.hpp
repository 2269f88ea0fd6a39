// The vectorised path's constants: with them, all rounding modes are one computation.
#pragma once

#include <cstdint>

#include "refit/quant/mxfp8.hpp"

namespace refit::quant {

/// With b the magnitude bits of the block maximum: scale = max((b + add) / 128 - subtract, at_least).
/// Valid for b = 0 and from `first` on to first + last_after_first: there the scale is at least 11, so that
/// no BF16 subnormal survives and the modes do not differ in how they treat them.
struct Constants {
  std::uint16_t add, subtract, at_least, first, last_after_first;
  // The same in all modes. They are set out of the compiler's sight too, because it would rather build known
  // vectors anew for every group than keep them.
  std::uint16_t magnitude = 0x7FFF;
  std::uint16_t smallest_scale = 11;
  std::uint16_t six = 6;
  std::uint16_t fraction = 0x7F << 5;
  std::uint16_t implicit_one = 0x80 << 5;
  std::uint16_t unit = 1 << 9;  ///< of the last place that stays
  std::uint16_t half = 1 << 8;
  std::uint16_t below_half = (1 << 8) - 1;
  std::uint8_t largest = 0x7E;
  std::uint8_t sign = 0x80;
};

[[nodiscard]] Constants constants_of(const Options& options) noexcept;

/// Neither infinite nor NaN.
[[nodiscard]] constexpr bool is_finite(std::uint16_t bf16) noexcept {
  return (bf16 & 0x7F80) != 0x7F80;
}

}  // namespace refit::quant
