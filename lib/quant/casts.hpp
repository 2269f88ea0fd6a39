// Elements of one dtype to BF16, as every producer of MXFP8 gets them. Inputs lie in a file and need not be
// aligned.
#pragma once

#include <cstddef>
#include <cstdint>

#include "refit/tensor/dtype.hpp"

namespace refit::quant {

/// BF16, F16 and F32: what to_bf16 takes.
[[nodiscard]] bool can_become_bf16(DType dtype) noexcept;

/// `count` elements of BF16, F16 or F32 to BF16 patterns, to nearest even; BF16 as they are.
void to_bf16(DType dtype, const std::byte* in, std::size_t count, std::uint16_t* out) noexcept;

/// An FP16 pattern's exact value.
[[nodiscard]] float f16_value(std::uint16_t bits) noexcept;

}  // namespace refit::quant
