// F8_128x4: the tiled scale layout that Blackwell's block-scaled matrix units read.
//
// M x C scale bytes (C = K / 32) are padded with zero bytes to Mp = 128*ceil(M/128) rows and
// Cp = 4*ceil(C/4) columns, and stored as (Mp/128) x (Cp/4) tiles of 512 bytes. Inside a tile, byte (r, c) is
// at (r%32)*16 + (r/32)*4 + c.
//
// Source: vLLM swizzle_mxfp8_scale, FlashInfer block_scale_interleave, torchao to_blocked (all equal).
// Every function throws Error(input) when a buffer has another size than the shape says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace refit::layout {

[[nodiscard]] constexpr std::uint64_t padded_scale_rows(std::uint64_t rows) noexcept {
  return (rows + 127) / 128 * 128;
}
[[nodiscard]] constexpr std::uint64_t padded_scale_cols(std::uint64_t cols) noexcept {
  return (cols + 3) / 4 * 4;
}

/// Bytes of the tiled form of a rows x cols scale matrix.
[[nodiscard]] constexpr std::uint64_t scale_128x4_bytes(std::uint64_t rows, std::uint64_t cols) noexcept {
  return padded_scale_rows(rows) * padded_scale_cols(cols);
}

/// Where byte (row, col) of a matrix with `padded_cols` (a multiple of 4) columns is stored.
[[nodiscard]] constexpr std::uint64_t scale_128x4_offset(std::uint64_t row, std::uint64_t col,
                                                         std::uint64_t padded_cols) noexcept {
  return row / 128 * (128 * padded_cols) + col / 4 * 512 + row % 32 * 16 + row % 128 / 32 * 4 + col % 4;
}

/// Row-major [rows, cols] to the tiled form, padding zeroed; `out` has scale_128x4_bytes(rows, cols) bytes.
/// The fast path: whole 4-byte groups.
void tile_scales_128x4(std::span<const std::uint8_t> in, std::uint64_t rows, std::uint64_t cols,
                       std::span<std::uint8_t> out);

/// The inverse; padding bytes are dropped.
void untile_scales_128x4(std::span<const std::uint8_t> in, std::uint64_t rows, std::uint64_t cols,
                         std::span<std::uint8_t> out);

/// The reference, written as upstream's reshapes: pad, view [Mp/128, 4, 32, Cp/4, 4], swap axes 1 and 3,
/// flatten.
[[nodiscard]] std::vector<std::uint8_t> tile_scales_128x4_reference(std::span<const std::uint8_t> in,
                                                                    std::uint64_t rows, std::uint64_t cols);

}  // namespace refit::layout
