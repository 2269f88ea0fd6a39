// A table for FP16, which has few values, and the cast of the quantizer's header for FP32.
#include "quant/casts.hpp"

#include <array>
#include <bit>
#include <cstring>

#include "refit/quant/mxfp8.hpp"

namespace refit::quant {
namespace {

const std::array<std::uint16_t, 65536>& bf16_of_half() {
  static const std::array<std::uint16_t, 65536> table = [] {
    std::array<std::uint16_t, 65536> values{};
    for (std::uint32_t bits = 0; bits < values.size(); ++bits) {
      values[bits] = bf16_from_float(f16_value(static_cast<std::uint16_t>(bits)));
    }
    return values;
  }();
  return table;
}

}  // namespace

bool can_become_bf16(DType dtype) noexcept {
  return dtype == DType::bf16 || dtype == DType::f16 || dtype == DType::f32;
}

/// IEEE half precision: bias 15, 10 fraction bits; every value is exact in FP32.
float f16_value(std::uint16_t bits) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  const std::uint32_t exponent = bits >> 10 & 0x1F, fraction = bits & 0x3FF;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F80'0000 | fraction << 13);
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

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
      out[i] = bf16_from_float(value);
    }
  }
}

}  // namespace refit::quant
