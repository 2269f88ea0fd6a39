// The scalar definition of MXFP8 on the device, for verification: one thread quantizes one block of 32 BF16
// patterns, in every rounding mode, finite or not.
//
// Steps, names and order are those of quant::quantize_block_reference; the arithmetic is exact here too. A
// maximum is compared as a BF16 pattern, whose order is that of magnitudes (NaN above infinity), and becomes
// a scale by its exponent and fraction. An element is FP32: the product of 8 significant bits and a power of
// two is exact, or so far below E4M3's smallest step that it rounds to zero either way.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/launch.hpp"

namespace refit::kernels::reference {

constexpr std::uint32_t kBlock = 32;
constexpr std::uint32_t kInfinity = 0x7F80;  // as a BF16 pattern
constexpr std::uint32_t kNaN = 0x7FC0;
constexpr float kE4m3Max = 448;

/// Word i holds elements 2 * i (low half) and 2 * i + 1.
struct Bf16Block {
  std::uint32_t words[kBlock / 2];
};

/// Word i holds elements 4 * i (lowest byte) to 4 * i + 3.
struct Mxfp8Block {
  std::uint32_t words[kBlock / 4];
  std::uint32_t scale;
};

/// The scale byte, and what every element is multiplied by before it becomes E4M3.
struct Scale {
  std::uint32_t byte;
  float factor;
};

__host__ __device__ inline float float_of(std::uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

__host__ __device__ inline std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

// --- the largest magnitude -----------------------------------------------------------------------------

/// Of the columns in the low (0) or high (1) halves of the words. A NaN is larger than everything else.
__host__ __device__ inline std::uint32_t amax_with_nan(const Bf16Block& in, std::uint32_t half) {
  const std::uint32_t magnitude = 0x7FFFu << 16 * half;
  std::uint32_t amax = 0;
  for (const std::uint32_t word : in.words) {
    if ((word & magnitude) > amax) amax = word & magnitude;
  }
  return amax >> 16 * half;
}

/// The same, but a NaN counts only if there is nothing else (max.bf16x2).
__host__ __device__ inline std::uint32_t amax_without_nan(const Bf16Block& in, std::uint32_t half) {
  const std::uint32_t largest = amax_with_nan(in, half);
  if (largest <= kInfinity) return largest;
  std::uint32_t amax = 0;
  bool any = false;
  for (const std::uint32_t word : in.words) {
    const std::uint32_t magnitude = word >> 16 * half & 0x7FFF;
    if (magnitude > kInfinity) continue;
    any = true;
    if (magnitude > amax) amax = magnitude;
  }
  return any ? amax : kNaN;
}

// --- the scale -----------------------------------------------------------------------------------------

/// `byte` may be what a formula gives, below the smallest that the rule allows. The factor is 2^(127 - byte).
__host__ __device__ inline Scale scale_of_byte(int byte, int smallest) {
  if (byte < smallest) byte = smallest;
  // The exponent field of 2^(127 - byte) is 254 - byte; the field of 2^-127 is 0, and its fraction a half.
  const std::uint32_t factor = byte == 254 ? 0x00400000 : static_cast<std::uint32_t>(254 - byte) << 23;
  return {static_cast<std::uint32_t>(byte), float_of(factor)};
}

__host__ __device__ inline Scale no_number() {
  return {255, float_of(kNaN << 16)};
}

__host__ __device__ inline int exponent_of(std::uint32_t pattern) {
  return static_cast<int>(pattern >> 7);
}
__host__ __device__ inline std::uint32_t fraction_of(std::uint32_t pattern) {
  return pattern & 0x7F;
}

/// ceil(log2(amax / 448)) + 127: 448 is 1.75 * 2^8, and 1.75 is the significand of fraction 0x60.
__host__ __device__ inline int byte_rounded_up(std::uint32_t amax) {
  return exponent_of(amax) - 8 + (fraction_of(amax) > 0x60 ? 1 : 0);
}

__host__ __device__ inline Scale flashinfer(std::uint32_t even, std::uint32_t odd) {
  std::uint32_t amax = even > odd ? even : odd;
  if (amax > kInfinity) amax = even < odd ? even : odd;  // the other half may have a number
  if (amax >= kInfinity) return {254, 0};
  const Scale scale = scale_of_byte(byte_rounded_up(amax), 0);
  return scale.byte == 0 ? Scale{0, 0} : scale;
}

__host__ __device__ inline Scale flashinfer_cuda(std::uint32_t even, std::uint32_t odd) {
  constexpr std::uint32_t kSmallestNormalQuotient = 0x04E0;  // 448 * 2^-126
  const bool comparable = even <= kInfinity && odd <= kInfinity;
  const std::uint32_t amax = comparable && even > odd ? even : odd;
  if (amax > kInfinity) return no_number();
  if (amax == kInfinity) return {254, 0};  // rcp.approx.ftz(2^127) flushes
  if (amax < kSmallestNormalQuotient) return {0, 0};
  return scale_of_byte(byte_rounded_up(amax), 0);
}

__host__ __device__ inline Scale torchao(Rounding rounding, std::uint32_t amax) {
  if (amax >= kInfinity) return no_number();
  if (rounding == Rounding::torchao_rceil) return scale_of_byte(byte_rounded_up(amax), 0);
  int exponent = exponent_of(amax);
  if (rounding == Rounding::torchao_ceil && fraction_of(amax) != 0) ++exponent;
  if (rounding == Rounding::torchao_even) {
    // The significand is rounded to E4M3's three bits first, and 1.9375 is the first to become 2.
    if (fraction_of(amax) >= 0x78) ++exponent;
    if (exponent == 255) return no_number();  // it became infinite
  }
  return scale_of_byte(exponent - 8, 0);
}

__host__ __device__ inline Scale vllm_floor(std::uint32_t amax) {
  if (amax > kInfinity) return {0, float_of(kNaN << 16)};
  if (amax == kInfinity) return scale_of_byte(254, 1);
  return scale_of_byte(exponent_of(amax), 1);
}

__host__ __device__ inline Scale scale_of(Rounding rounding, const Bf16Block& in) {
  const bool skips_nan = rounding == Rounding::flashinfer || rounding == Rounding::flashinfer_cuda;
  const std::uint32_t even = skips_nan ? amax_without_nan(in, 0) : amax_with_nan(in, 0);
  const std::uint32_t odd = skips_nan ? amax_without_nan(in, 1) : amax_with_nan(in, 1);
  const std::uint32_t amax = even > odd ? even : odd;
  switch (rounding) {
    case Rounding::flashinfer:
      return flashinfer(even, odd);
    case Rounding::flashinfer_cuda:
      return flashinfer_cuda(even, odd);
    case Rounding::torchao_rceil:
    case Rounding::torchao_floor:
    case Rounding::torchao_even:
    case Rounding::torchao_ceil:
      return torchao(rounding, amax);
    case Rounding::vllm_floor:
      break;
  }
  return vllm_floor(amax);
}

// --- the elements --------------------------------------------------------------------------------------

/// Element i as FP32.
__host__ __device__ inline float value_of(const Bf16Block& in, std::uint32_t i) {
  const std::uint32_t word = in.words[i / 2];
  return float_of(i % 2 == 0 ? word << 16 : word & 0xFFFF0000);
}

/// The nearest E4M3 of a magnitude, ties to even; more than 448 becomes 448, which happens in the modes that
/// clamp alone. Not for infinities and NaNs.
__host__ __device__ inline std::uint32_t e4m3_of_magnitude(float magnitude) {
  constexpr float kSmallestNormal = 0x1p-6f;  // below it the step stays 2^-9
  magnitude = fminf(magnitude, kE4m3Max);
  const std::uint32_t exponent = bits_of(fmaxf(magnitude, kSmallestNormal)) & 0x7F800000;
  // FP32 has 23 fraction bits: added to a power of two 20 octaves up, the magnitude keeps three. The addition
  // itself rounds them to nearest even, and the sum's low bits count 0 to 16 steps (16 carries by itself).
  const std::uint32_t steps = bits_of(magnitude + float_of(exponent) * 0x1p20f);
  const std::uint32_t octaves = (exponent - bits_of(kSmallestNormal)) >> 23;
  return (octaves * 8 + steps) & 0x7F;
}

/// What becomes of a value that is not finite: an infinity keeps its sign as it becomes NaN (torch's cast), a
/// NaN does not (every producer).
__host__ __device__ inline std::uint32_t e4m3_of_no_number(float value) {
  const bool negative_infinity = bits_of(value) == (0x8000 | kInfinity) << 16;
  return negative_infinity ? 0xFF : 0x7F;
}

__host__ __device__ inline bool is_number(float value) {
  return (bits_of(value) & 0x7F800000) != 0x7F800000;
}

__host__ __device__ inline void flush_subnormals(Bf16Block& block) {
  for (std::uint32_t& word : block.words) {
    if ((word & 0x7F80) == 0) word &= ~0x7Fu;
    if ((word & 0x7F800000) == 0) word &= ~0x7F0000u;
  }
}

/// Signs alone, except of NaN.
__host__ __device__ inline void zero_elements(Mxfp8Block& block) {
  for (std::uint32_t& word : block.words) {
    for (std::uint32_t shift = 0; shift < 32; shift += 8) {
      if ((word >> shift & 0x7F) != 0x7F) word &= ~(0x7Fu << shift);
    }
  }
}

__host__ __device__ inline Mxfp8Block quantize_block(Bf16Block in, Rounding rounding, ZeroScale zero_scale) {
  const Scale scale = scale_of(rounding, in);
  const bool numbers =
      is_number(scale.factor) && amax_with_nan(in, 0) < kInfinity && amax_with_nan(in, 1) < kInfinity;
  if (rounding == Rounding::flashinfer_cuda) flush_subnormals(in);

  Mxfp8Block out{};
  for (std::uint32_t i = 0; i < kBlock; ++i) {
    const float value = value_of(in, i) * scale.factor;
    const std::uint32_t sign = bits_of(value) >> 24 & 0x80;
    const std::uint32_t element = sign | e4m3_of_magnitude(fabsf(value));
    out.words[i / 4] |= element << 8 * (i % 4);
  }
  if (!numbers) {
    for (std::uint32_t i = 0; i < kBlock; ++i) {
      const float value = value_of(in, i) * scale.factor;
      if (is_number(value)) continue;
      const std::uint32_t shift = 8 * (i % 4);
      out.words[i / 4] = (out.words[i / 4] & ~(0xFFu << shift)) | e4m3_of_no_number(value) << shift;
    }
  }
  out.scale = scale.byte;
  if (scale.byte == 0 && zero_scale == ZeroScale::one) {
    zero_elements(out);
    out.scale = 1;
  }
  return out;
}

}  // namespace refit::kernels::reference
