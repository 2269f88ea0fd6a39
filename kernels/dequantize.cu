// MXFP8 back to FP32: one thread an element, so that a warp reads one block and writes one cache line.
#include "kernels/launch.hpp"

namespace refit::kernels {
namespace {

constexpr std::uint32_t kThreads = 256;
constexpr std::uint32_t kBlock = 32;  // elements that share a scale
constexpr std::uint32_t kNaN = 0x7FC00000;

__host__ __device__ float float_of(std::uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/// OCP E4M3: bias 7, steps of 2^-9 below 2^-6, no infinity.
__host__ __device__ float e4m3_value(std::uint32_t bits) {
  const std::uint32_t exponent = bits >> 3 & 0xF, fraction = bits & 7;
  if ((bits & 0x7F) == 0x7F) return float_of(kNaN);
  const float magnitude = exponent == 0 ? static_cast<float>(fraction) * 0x1p-9f
                                        : float_of((exponent + 127 - 7) << 23 | fraction << 20);
  return bits & 0x80 ? -magnitude : magnitude;
}

/// E8M0: 2^(bits - 127), of which the smallest is a subnormal number; 255 is NaN.
__host__ __device__ float e8m0_value(std::uint32_t bits) {
  if (bits == 0xFF) return float_of(kNaN);
  return bits == 0 ? 0x1p-127f : float_of(bits << 23);
}

__global__ void __launch_bounds__(kThreads)
    dequantize_kernel(const std::uint8_t* __restrict__ elements, const std::uint8_t* __restrict__ scales,
                      float* __restrict__ out, std::uint64_t count) {
  const std::uint64_t stride = static_cast<std::uint64_t>(gridDim.x) * kThreads;
  for (std::uint64_t i = static_cast<std::uint64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += stride) {
    out[i] = e4m3_value(elements[i]) * e8m0_value(scales[i / kBlock]);
  }
}

}  // namespace

void dequantize(const std::uint8_t* elements, const std::uint8_t* scales, float* out, std::uint64_t blocks,
                Stream stream) {
  if (blocks == 0) return;
  const std::uint64_t count = blocks * kBlock;
  const std::uint64_t needed = (count + kThreads - 1) / kThreads;
  const std::uint64_t most = 1 << 20;  // above this, blocks take several turns
  dequantize_kernel<<<static_cast<unsigned>(needed < most ? needed : most), kThreads, 0, stream>>>(
      elements, scales, out, count);
}

}  // namespace refit::kernels
