// What a plan is made from, and the bytes of its boxes.
#pragma once

#include <cstdint>
#include <vector>

#include "refit/base/bytes.hpp"
#include "refit/quant/mxfp8.hpp"
#include "refit/reshard/reshard.hpp"

namespace refit::reshard {

struct Problem {
  const model::Inventory& model;
  const std::vector<bool>& quantized;
  const Layout& trainer;
  const Layout& generator;
  const Options& options;
};

/// Every box begins on this boundary in what is sent, values and scales alike.
inline constexpr std::uint64_t kBoxAlignment = 512;

/// Bytes of `elements` elements on the wire, by what travels for them.
struct BoxBytes {
  std::uint64_t values = 0, scales = 0;
  [[nodiscard]] std::uint64_t wire() const noexcept { return values + scales; }
  [[nodiscard]] std::uint64_t aligned() const noexcept {
    return align_up(values, kBoxAlignment) + align_up(scales, kBoxAlignment);
  }
};
[[nodiscard]] inline BoxBytes box_bytes(std::uint64_t elements, Form form, DType dtype) noexcept {
  if (form == Form::quantized) return {elements, elements / quant::kBlock};
  return {elements * size_of(dtype), 0};
}

}  // namespace refit::reshard
