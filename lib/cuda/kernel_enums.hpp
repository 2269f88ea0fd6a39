// The core's enumerations as the kernels number them.
#pragma once

#include "kernels/launch.hpp"
#include "refit/plan/plan.hpp"
#include "refit/quant/mxfp8.hpp"

namespace refit::cuda {

template <typename A, typename B>
[[nodiscard]] constexpr bool same_number(A a, B b) noexcept {
  return static_cast<int>(a) == static_cast<int>(b);
}
static_assert(same_number(quant::Rounding::flashinfer, kernels::Rounding::flashinfer) &&
              same_number(quant::Rounding::flashinfer_cuda, kernels::Rounding::flashinfer_cuda) &&
              same_number(quant::Rounding::torchao_rceil, kernels::Rounding::torchao_rceil) &&
              same_number(quant::Rounding::torchao_floor, kernels::Rounding::torchao_floor) &&
              same_number(quant::Rounding::torchao_even, kernels::Rounding::torchao_even) &&
              same_number(quant::Rounding::torchao_ceil, kernels::Rounding::torchao_ceil) &&
              same_number(quant::Rounding::vllm_floor, kernels::Rounding::vllm_floor) &&
              quant::kRoundings.size() == 7);
static_assert(same_number(quant::ZeroScale::keep, kernels::ZeroScale::keep) &&
              same_number(quant::ZeroScale::one, kernels::ZeroScale::one));
static_assert(same_number(plan::ScaleLayout::none, kernels::ScaleLayout::none) &&
              same_number(plan::ScaleLayout::row_major, kernels::ScaleLayout::row_major) &&
              same_number(plan::ScaleLayout::tiled_128x4, kernels::ScaleLayout::tiled_128x4));

[[nodiscard]] constexpr kernels::Rounding kernel_enum(quant::Rounding rounding) noexcept {
  return static_cast<kernels::Rounding>(rounding);
}
[[nodiscard]] constexpr kernels::ZeroScale kernel_enum(quant::ZeroScale zero_scale) noexcept {
  return static_cast<kernels::ZeroScale>(zero_scale);
}
[[nodiscard]] constexpr kernels::ScaleLayout kernel_enum(plan::ScaleLayout scale_layout) noexcept {
  return static_cast<kernels::ScaleLayout>(scale_layout);
}

}  // namespace refit::cuda
