// Table look-ups where there are few values, and the cast of the quantizer's header otherwise.
#include "convert/values.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "refit/quant/mxfp8.hpp"

namespace refit::convert {
namespace {

/// IEEE half precision: bias 15, 10 fraction bits; every value is exact in FP32.
float value_of_half(std::uint16_t bits) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  const std::uint32_t exponent = bits >> 10 & 0x1F, fraction = bits & 0x3FF;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F80'0000 | fraction << 13);
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

const std::array<std::uint16_t, 65536>& bf16_of_half() {
  static const std::array<std::uint16_t, 65536> table = [] {
    std::array<std::uint16_t, 65536> values{};
    for (std::uint32_t bits = 0; bits < values.size(); ++bits) {
      values[bits] = quant::bf16_from_float(value_of_half(static_cast<std::uint16_t>(bits)));
    }
    return values;
  }();
  return table;
}

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

void to_bf16(DType dtype, const std::byte* in, std::size_t count, std::uint16_t* out) noexcept {
  if (dtype == DType::bf16) {
    std::memcpy(out, in, count * sizeof *out);
  } else if (dtype == DType::f16) {
    const auto& table = bf16_of_half();
    for (std::size_t i = 0; i < count; ++i) {
      std::uint16_t bits;
      std::memcpy(&bits, in + i * sizeof bits, sizeof bits);
      out[i] = table[bits];
    }
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      float value;
      std::memcpy(&value, in + i * sizeof value, sizeof value);
      out[i] = quant::bf16_from_float(value);
    }
  }
}

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
  return dtype == DType::f16 ? value_of_half(bits) : quant::bf16_value(bits);
}

}  // namespace refit::convert
