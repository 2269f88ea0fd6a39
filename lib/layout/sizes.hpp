// The size checks that every function of this module makes before it touches a byte.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>

#include "refit/base/error.hpp"

namespace refit::layout {

/// Throws Error(input) unless a buffer of `size` bytes holds exactly dims[0] x dims[1] x dims[2]; a product
/// that does not fit in 64 bits never matches. `what` names the buffer in the sentence.
inline void require_bytes(std::string_view what, std::uint64_t size,
                          const std::array<std::uint64_t, 3>& dims) {
  const auto [experts, rows, cols] = dims;
  constexpr auto limit = std::numeric_limits<std::uint64_t>::max();
  const bool empty = experts == 0 || rows == 0 || cols == 0;
  const bool fits = empty || (rows <= limit / experts && cols <= limit / (experts * rows));
  if (fits && size == experts * rows * cols) return;
  fail_input(
      fmt::format("{} has {} bytes, but {} x {} x {} were announced.", what, size, experts, rows, cols));
}

/// Throws Error(input) unless `rows` is a multiple of 128, the rows of one scale tile.
inline void require_tiled_rows(std::string_view what, std::uint64_t rows) {
  if (rows % 128 == 0) return;
  fail_input(fmt::format("The TRT-LLM MoE layout of {} needs a multiple of 128 rows, not {} ({} remain).",
                         what, rows, rows % 128));
}

}  // namespace refit::layout
