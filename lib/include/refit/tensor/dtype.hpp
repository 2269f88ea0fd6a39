// Element types, as the safetensors format names them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace refit {

enum class DType : std::uint8_t {
  f64,
  f32,
  f16,
  bf16,
  f8_e4m3,
  f8_e5m2,
  f8_e8m0,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean,
};

/// Bytes of one element: 8, 4, 2 or 1.
[[nodiscard]] std::size_t size_of(DType dtype) noexcept;

/// The safetensors name: "BF16", "F8_E4M3", "BOOL", ...
[[nodiscard]] std::string_view name_of(DType dtype) noexcept;

/// The dtype with that safetensors name, or nothing.
[[nodiscard]] std::optional<DType> parse_dtype(std::string_view name) noexcept;

}  // namespace refit
