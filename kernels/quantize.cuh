// BF16 to MXFP8 in a warp: four lanes a block of 32 elements, eight consecutive elements (16 bytes) a lane.
//
// The usual block needs integer arithmetic on the bits of its largest magnitude, and products that are exact:
// BF16 times a power of two. A block outside QuantRule's range (infinite, NaN, or so small that the rounding
// modes part) goes through quantize_unusual, which holds every producer's rules, for any block.
#pragma once

#include <cuda_fp8.h>

#include <cstdint>

#include "kernels/grouped.hpp"

namespace refit::kernels {

inline constexpr unsigned kWarpLanes = 32;
inline constexpr unsigned kWholeWarp = 0xFFFFFFFF;
inline constexpr unsigned kLaneElements = 8;
inline constexpr unsigned kBlockLanes = 4;
inline constexpr unsigned kBlockElements = kBlockLanes * kLaneElements;
inline constexpr unsigned kInfinity = 0x7F80;  // BF16

/// E4M3 bytes of a lane's elements, in their order.
using Codes = uint2;

/// The E4M3 bytes, nearest even and at most 448 in magnitude, of two finite values.
__device__ inline std::uint32_t e4m3_pair(float first, float second) {
#if __CUDA_ARCH__ >= 890
  return __nv_cvt_float2_to_fp8x2(make_float2(first, second), __NV_SATFINITE, __NV_E4M3);
#else
  // CUDA's own conversion goes through double here and is several times slower than memory.
  const auto convert = [](float value) {
    const float magnitude = fminf(fabsf(value), 448.0f);
    const std::uint32_t bits = __float_as_uint(magnitude);
    const std::uint32_t normal = ((bits + 0x7FFFF + (bits >> 20 & 1)) >> 20) - (120 << 3);
    // Below 2^-6 the step stays 2^-9: that of 2^14's last place.
    const std::uint32_t small = __float_as_uint(magnitude + 16384.0f) - __float_as_uint(16384.0f);
    return (magnitude < 0.015625f ? small : normal) | (__float_as_uint(value) >> 24 & 0x80);
  };
  return convert(first) | convert(second) << 8;
#endif
}

__device__ inline float low_element(std::uint32_t pair) {
  return __uint_as_float(pair << 16);
}
__device__ inline float high_element(std::uint32_t pair) {
  return __uint_as_float(pair & 0xFFFF0000);
}

__device__ inline Codes scaled_codes(const uint4& in, float factor) {
  const auto codes = [factor](std::uint32_t pair) {
    return e4m3_pair(low_element(pair) * factor, high_element(pair) * factor);
  };
  return {codes(in.x) | codes(in.y) << 16, codes(in.z) | codes(in.w) << 16};
}

/// In every lane of a block: the bits of its largest magnitude, above kInfinity if there is a NaN.
__device__ inline std::uint32_t block_maximum(const uint4& in) {
  constexpr std::uint32_t magnitude = 0x7FFF7FFF;
  std::uint32_t pair =
      __vmaxu2(__vmaxu2(in.x & magnitude, in.y & magnitude), __vmaxu2(in.z & magnitude, in.w & magnitude));
  pair = __vmaxu2(pair, __shfl_xor_sync(kWholeWarp, pair, 1));
  pair = __vmaxu2(pair, __shfl_xor_sync(kWholeWarp, pair, 2));
  return max(pair & 0xFFFF, pair >> 16);
}

/// 2^(127 - scale) for 0..254. The last is subnormal, and only vLLM's rule gets there; a product below 2^-126
/// may then be rounded, far below what E4M3 can tell from zero. All others are exact.
__device__ inline float factor_of(int scale) {
  constexpr int subnormal = 1 << 22;  // 2^-127
  return __int_as_float(max((254 - scale) << 23, subnormal));
}

struct Quantized {
  Codes codes;
  std::uint32_t scale = 0;
  bool unusual = false;  ///< codes and scale are not valid: quantize_unusual has to be asked
};

/// Every lane of the warp calls this.
__device__ inline Quantized quantize_usual(const uint4& in, const QuantRule& rule) {
  const std::uint32_t b = block_maximum(in);
  const int rounded = static_cast<int>((b + rule.add) >> 7) - rule.subtract;
  const int scale = max(rounded, static_cast<int>(rule.at_least));
  return {scaled_codes(in, factor_of(scale)), static_cast<std::uint32_t>(scale),
          b != 0 && b - rule.first > rule.range};
}

/// The largest magnitude of the even and of the odd elements of a block, NaNs left out; -1 if there is
/// nothing else.
struct Maxima {
  int even, odd;
};

__device__ inline Maxima maxima_without_nan(const uint4& in) {
  Maxima maxima = {-1, -1};
  const auto larger = [](int maximum, std::uint32_t bits) {
    const int magnitude = static_cast<int>(bits & 0x7FFF);
    return magnitude > static_cast<int>(kInfinity) ? maximum : max(maximum, magnitude);
  };
  const std::uint32_t pairs[] = {in.x, in.y, in.z, in.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    maxima.even = larger(maxima.even, pairs[i]);
    maxima.odd = larger(maxima.odd, pairs[i] >> 16);
  }
#pragma unroll
  for (unsigned step = 1; step < kBlockLanes; step *= 2) {
    maxima.even = max(maxima.even, __shfl_xor_sync(kWholeWarp, maxima.even, step));
    maxima.odd = max(maxima.odd, __shfl_xor_sync(kWholeWarp, maxima.odd, step));
  }
  return maxima;
}

/// The scale byte, and what every element is multiplied by.
struct BlockScale {
  int byte;
  float factor;
};

/// The scale of amax / 448 rounded up, or of amax, as the rule has it.
__device__ inline BlockScale scale_by_rule(int maximum, const QuantRule& rule) {
  const int smallest = rule.rounding == Rounding::vllm_floor ? 1 : 0;
  const int byte = max(((maximum + rule.add) >> 7) - rule.subtract, smallest);
  return {byte, factor_of(byte)};
}

/// FlashInfer's two producers (NaN counts only if there is nothing else), torchao and vLLM (NaN always
/// counts).
__device__ inline BlockScale unusual_scale(const uint4& in, const QuantRule& rule) {
  const std::uint32_t with_nan = block_maximum(in);
  const Maxima maxima = maxima_without_nan(in);
  constexpr int infinity = kInfinity;
  const float nan = __uint_as_float(0x7FFFFFFF);
  switch (rule.rounding) {
    case Rounding::flashinfer: {
      const int maximum = max(maxima.even, maxima.odd);
      if (maximum < 0 || maximum == infinity) return {254, 0.0f};
      const BlockScale scale = scale_by_rule(maximum, rule);
      return scale.byte == 0 ? BlockScale{0, 0.0f} : scale;
    }
    case Rounding::flashinfer_cuda: {
      constexpr int smallest_normal = 0x04E0;  // 448 * 2^-126: below, amax / 448 is flushed
      const int maximum = maxima.even > maxima.odd && maxima.odd >= 0 ? maxima.even : maxima.odd;
      if (maximum < 0) return {255, nan};
      if (maximum == infinity || maximum < smallest_normal) return {maximum == infinity ? 254 : 0, 0.0f};
      return scale_by_rule(maximum, rule);
    }
    case Rounding::torchao_rceil:
    case Rounding::torchao_floor:
    case Rounding::torchao_even:
    case Rounding::torchao_ceil: {
      const bool overflows = rule.rounding == Rounding::torchao_even && with_nan + rule.add >= kInfinity;
      if (with_nan >= kInfinity || overflows) return {255, nan};
      return scale_by_rule(static_cast<int>(with_nan), rule);
    }
    case Rounding::vllm_floor:
      break;
  }
  if (with_nan > kInfinity) return {0, nan};
  return with_nan == kInfinity ? BlockScale{254, factor_of(254)}
                               : scale_by_rule(static_cast<int>(with_nan), rule);
}

/// The same bytes as quant::quantize_block_reference, for any block. Every lane of the warp calls this.
__device__ inline Quantized quantize_unusual(const uint4& in, const QuantRule& rule) {
  const BlockScale scale = unusual_scale(in, rule);
  const bool zeroed = scale.byte == 0 && rule.zero_scale == ZeroScale::one;
  const auto code = [&](std::uint32_t bits) -> std::uint32_t {
    const std::uint32_t magnitude = bits & 0x7FFF;
    const std::uint32_t sign = bits >> 8 & 0x80;
    if (magnitude > kInfinity || scale.factor != scale.factor) return 0x7F;
    if (magnitude == kInfinity) return scale.factor == 0.0f ? 0x7F : sign | 0x7F;
    // FlashInfer's CUDA backend is built to flush subnormal elements.
    if (zeroed || (rule.rounding == Rounding::flashinfer_cuda && magnitude < 0x0080)) return sign;
    return e4m3_pair(low_element(bits) * scale.factor, 0.0f) & 0xFF;
  };
  const auto codes = [&](std::uint32_t pair) { return code(pair & 0xFFFF) | code(pair >> 16) << 8; };
  return {{codes(in.x) | codes(in.y) << 16, codes(in.z) | codes(in.w) << 16},
          static_cast<std::uint32_t>(zeroed ? 1 : scale.byte)};
}

/// Bit i: whether element i of the lane is infinite or NaN.
__device__ inline unsigned non_finite_elements(const uint4& in) {
  const std::uint32_t pairs[] = {in.x, in.y, in.z, in.w};
  unsigned mask = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    mask |= static_cast<unsigned>((pairs[i] & kInfinity) == kInfinity) << (2 * i);
    mask |= static_cast<unsigned>((pairs[i] >> 16 & kInfinity) == kInfinity) << (2 * i + 1);
  }
  return mask;
}

}  // namespace refit::kernels
