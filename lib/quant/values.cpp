// What the bytes mean: E4M3 elements and E8M0 scales as numbers.
#include <cmath>
#include <limits>

#include "refit/quant/mxfp8.hpp"

namespace refit::quant {

float e4m3_value(std::uint8_t bits) noexcept {
  const int exponent = (bits >> 3) & 0xF;
  const int fraction = bits & 7;
  if ((bits & 0x7F) == 0x7F) return std::numeric_limits<float>::quiet_NaN();
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -9)
                                        : std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

double mx_value(std::uint8_t element, std::uint8_t scale) noexcept {
  if (scale == 0xFF) return std::numeric_limits<double>::quiet_NaN();
  return std::ldexp(static_cast<double>(e4m3_value(element)), scale - 127);
}

}  // namespace refit::quant
