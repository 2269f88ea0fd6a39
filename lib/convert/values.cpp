// A table for E4M3, which has few values.
#include "convert/values.hpp"

#include <array>
#include <cmath>
#include <cstring>

#include "refit/quant/mxfp8.hpp"

namespace refit::convert {
namespace {

const std::array<float, 256>& e4m3_values() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> values{};
    for (std::uint32_t bits = 0; bits < values.size(); ++bits) {
      values[bits] = quant::e4m3_value(static_cast<std::uint8_t>(bits));
    }
    return values;
  }();
  return table;
}

/// 2^(scale - 127), NaN for 255; 2^-127 is a subnormal, and exact.
float scale_value(std::uint8_t scale) noexcept {
  return scale == 0xFF ? std::nanf("") : std::ldexp(1.0f, int{scale} - 127);
}

}  // namespace

void dequantize(const std::byte* values, const std::byte* scales, std::size_t blocks,
                std::uint16_t* out) noexcept {
  const auto& elements = e4m3_values();
  for (std::size_t block = 0; block < blocks; ++block) {
    // The product of a value of 4 significant bits and a power of two is exact, or infinite.
    const float scale = scale_value(std::to_integer<std::uint8_t>(scales[block]));
    for (std::size_t i = block * quant::kBlock; i < (block + 1) * quant::kBlock; ++i) {
      out[i] = quant::bf16_from_float(elements[std::to_integer<std::uint8_t>(values[i])] * scale);
    }
  }
}

float value_at(DType dtype, const std::byte* data, std::uint64_t index) noexcept {
  if (dtype == DType::f32) {
    float value;
    std::memcpy(&value, data + index * sizeof value, sizeof value);
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, data + index * sizeof bits, sizeof bits);
  return dtype == DType::f16 ? quant::f16_value(bits) : quant::bf16_value(bits);
}

}  // namespace refit::convert
