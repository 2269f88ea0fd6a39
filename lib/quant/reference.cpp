// The scalar definition of MXFP8: what each producer computes, step by step, for one block.
//
// Everything is done in double: a BF16 value, a power of two between 2^-127 and 2^127, and their product are
// exact there, and no setting of the floating-point unit (flush to zero) can reach them. Sources:
//   FlashInfer v0.6.13   flashinfer/quantization/quantization_cute_dsl_utils.py (flashinfer) and
//                        csrc/nv_internal/tensorrt_llm/kernels/quantization_utils.cuh (flashinfer-cuda)
//   pytorch/ao 36027d82  torchao/prototype/mx_formats/mx_tensor.py (torchao-*)
//   vLLM 00134422        vllm/model_executor/layers/quantization/utils/mxfp8_utils.py (vllm-floor)
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "refit/quant/mxfp8.hpp"

namespace refit::quant {
namespace {

using Block = std::span<const std::uint16_t, kBlock>;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kE4m3Max = 448;
constexpr double kSmallestNormalFloat = 0x1p-126;

/// 2^n for -1022 <= n <= 1023.
double power_of_two(int n) noexcept {
  return std::bit_cast<double>(static_cast<std::uint64_t>(1023 + n) << 52);
}

/// For x > 0, and far below every exponent of interest for x = 0.
int floor_log2(double x) noexcept {
  return static_cast<int>(std::bit_cast<std::uint64_t>(x) >> 52) - 1023;
}

int ceil_log2(double x) noexcept {
  const int floor = floor_log2(x);
  return x > 0 && power_of_two(floor) == x ? floor : floor + 1;
}

double value_of(std::uint16_t bits) noexcept {
  const int exponent = (bits >> 7) & 0xFF;
  const int fraction = bits & 0x7F;
  double magnitude = exponent == 0 ? fraction * 0x1p-133 : (128 + fraction) * power_of_two(exponent - 134);
  if (exponent == 0xFF) magnitude = fraction == 0 ? std::numeric_limits<double>::infinity() : kNaN;
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

/// The nearest E4M3 of a value in -448..448, ties to even. An infinity keeps its sign as it becomes NaN
/// (torch's cast), a NaN does not (every producer).
std::uint8_t e4m3_of(double value) noexcept {
  if (std::isnan(value)) return 0x7F;
  const int sign = std::signbit(value) ? 0x80 : 0;
  if (std::isinf(value)) return static_cast<std::uint8_t>(sign | 0x7F);
  const double magnitude = std::fabs(value);
  const int exponent = std::max(floor_log2(magnitude), -6);  // below 2^-6 the step stays 2^-9
  const double steps = magnitude * power_of_two(3 - exponent);
  int code = static_cast<int>(steps);
  const double rest = steps - code;
  if (rest > 0.5 || (rest == 0.5 && code % 2 == 1)) ++code;
  return static_cast<std::uint8_t>(sign | ((exponent + 6) * 8 + code));  // a code of 16 carries by itself
}

/// max.bf16x2 and max.f32 over columns first, first + step, ..: a NaN counts only if there is nothing else.
double amax_without_nan(Block in, std::size_t first, std::size_t step) noexcept {
  double amax = kNaN;
  for (std::size_t i = first; i < kBlock; i += step) amax = std::fmax(amax, std::fabs(value_of(in[i])));
  return amax;
}

/// torch.amax: NaN as soon as there is one.
double amax_with_nan(Block in) noexcept {
  double amax = 0;
  for (const std::uint16_t bits : in) {
    const double magnitude = std::fabs(value_of(bits));
    if (std::isnan(magnitude)) return kNaN;
    amax = std::max(amax, magnitude);
  }
  return amax;
}

/// The scale byte, and what every element is multiplied by before it becomes E4M3.
struct Scale {
  int byte = 0;
  double factor = 0;
};

Scale scale_of_exponent(int exponent, int smallest_byte) noexcept {
  const int byte = std::max(exponent + 127, smallest_byte);
  return {byte, power_of_two(127 - byte)};
}

Scale flashinfer(Block in) noexcept {
  const double amax = amax_without_nan(in, 0, 1);
  if (!std::isfinite(amax)) return {254, 0};
  const Scale scale = scale_of_exponent(ceil_log2(amax / kE4m3Max), 0);
  return scale.byte == 0 ? Scale{0, 0} : scale;
}

Scale flashinfer_cuda(Block in) noexcept {
  const double even = amax_without_nan(in, 0, 2);
  const double odd = amax_without_nan(in, 1, 2);
  const double amax = even > odd ? even : odd;  // odd whenever one of them is NaN
  if (std::isnan(amax)) return {255, kNaN};
  if (std::isinf(amax)) return {254, 0};  // rcp.approx.ftz(2^127) flushes
  if (amax / kE4m3Max < kSmallestNormalFloat) return {0, 0};
  return scale_of_exponent(ceil_log2(amax / kE4m3Max), 0);
}

Scale torchao(Rounding rounding, Block in) noexcept {
  const double amax = amax_with_nan(in);
  if (!std::isfinite(amax)) return {255, kNaN};
  if (rounding == Rounding::torchao_rceil) return scale_of_exponent(ceil_log2(amax / kE4m3Max), 0);
  if (rounding == Rounding::torchao_ceil) return scale_of_exponent(ceil_log2(amax) - 8, 0);
  int exponent = floor_log2(amax);
  if (rounding == Rounding::torchao_even && amax > 0) {
    // The significand is rounded to E4M3's three bits first, and 1.9375 is the first to become 2.
    if (amax >= 1.9375 * power_of_two(exponent)) ++exponent;
    if (exponent == 128) return {255, kNaN};  // it became infinite
  }
  return scale_of_exponent(exponent - 8, 0);
}

Scale vllm_floor(Block in) noexcept {
  const double amax = amax_with_nan(in);
  if (std::isnan(amax)) return {0, kNaN};
  if (std::isinf(amax)) return {254, 0x1p-127};
  return scale_of_exponent(floor_log2(amax), 1);
}

Scale scale_of(Rounding rounding, Block in) noexcept {
  switch (rounding) {
    case Rounding::flashinfer:
      return flashinfer(in);
    case Rounding::flashinfer_cuda:
      return flashinfer_cuda(in);
    case Rounding::torchao_rceil:
    case Rounding::torchao_floor:
    case Rounding::torchao_even:
    case Rounding::torchao_ceil:
      return torchao(rounding, in);
    case Rounding::vllm_floor:
      return vllm_floor(in);
  }
  return {};
}

std::uint8_t element_of(Rounding rounding, std::uint16_t bits, double factor) noexcept {
  double value = value_of(bits);
  if (rounding == Rounding::flashinfer_cuda && std::fabs(value) < kSmallestNormalFloat) {
    value = std::copysign(0.0, value);
  }
  value *= factor;
  const bool clamps = rounding == Rounding::torchao_floor || rounding == Rounding::torchao_even;
  return e4m3_of(clamps ? std::clamp(value, -kE4m3Max, kE4m3Max) : value);
}

}  // namespace

std::uint8_t quantize_block_reference(Block in, const Options& options,
                                      std::span<std::uint8_t, kBlock> out) noexcept {
  const Scale scale = scale_of(options.rounding, in);
  const bool zeroed = scale.byte == 0 && options.zero_scale == ZeroScale::one;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const std::uint8_t element = element_of(options.rounding, in[i], scale.factor);
    const bool is_nan = (element & 0x7F) == 0x7F;
    out[i] = zeroed && !is_nan ? static_cast<std::uint8_t>(element & 0x80) : element;
  }
  return static_cast<std::uint8_t>(zeroed ? 1 : scale.byte);
}

}  // namespace refit::quant
