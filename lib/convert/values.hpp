// Values of elements, and MXFP8 back to BF16. Inputs lie in a file and need not be aligned.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/casts.hpp"
#include "refit/tensor/dtype.hpp"

namespace refit::convert {

using quant::to_bf16;

/// `blocks` blocks of E4M3 elements and their E8M0 scales: the exact value to nearest even.
void dequantize(const std::byte* values, const std::byte* scales, std::size_t blocks,
                std::uint16_t* out) noexcept;

/// Element `index` of BF16, F16 or F32 data.
[[nodiscard]] float value_at(DType dtype, const std::byte* data, std::uint64_t index) noexcept;

}  // namespace refit::convert
