// The fast path of the 128x4 scale layout: output order, one 4-byte group at a time.
#include "refit/layout/scale_128x4.hpp"

#include <algorithm>
#include <cstring>

#include "layout/sizes.hpp"

namespace refit::layout {
namespace {

constexpr std::uint64_t tile_rows = 128;
constexpr std::uint64_t tile_bytes = 512;
constexpr std::uint64_t group = 4;

/// One tile whose 128 rows and 4 columns all exist. Its 16-byte line r holds rows r, r+32, r+64, r+96.
void tile_whole(const std::uint8_t* in, std::uint64_t stride, std::uint8_t* out) {
  for (std::uint64_t r = 0; r < 32; ++r) {
    for (std::uint64_t quarter = 0; quarter < 4; ++quarter) {
      std::memcpy(out + 16 * r + group * quarter, in + (r + 32 * quarter) * stride, group);
    }
  }
}

/// One tile of which only the upper left rows x cols corner exists.
void tile_corner(const std::uint8_t* in, std::uint64_t stride, std::uint64_t rows, std::uint64_t cols,
                 std::uint8_t* out) {
  std::memset(out, 0, tile_bytes);
  for (std::uint64_t r = 0; r < rows; ++r) {
    std::memcpy(out + scale_128x4_offset(r, 0, group), in + r * stride, cols);
  }
}

}  // namespace

void tile_scales_128x4(std::span<const std::uint8_t> in, std::uint64_t rows, std::uint64_t cols,
                       std::span<std::uint8_t> out) {
  require_bytes("A row-major scale matrix to tile", in.size(), {1, rows, cols});
  require_bytes("The buffer for tiled 128x4 scales", out.size(),
                {1, padded_scale_rows(rows), padded_scale_cols(cols)});
  if (in.empty()) return;
  std::uint8_t* tile = out.data();
  for (std::uint64_t row = 0; row < rows; row += tile_rows) {
    for (std::uint64_t col = 0; col < cols; col += group, tile += tile_bytes) {
      const std::uint8_t* corner = in.data() + row * cols + col;
      if (rows - row >= tile_rows && cols - col >= group) {
        tile_whole(corner, cols, tile);
      } else {
        tile_corner(corner, cols, std::min(rows - row, tile_rows), std::min(cols - col, group), tile);
      }
    }
  }
}

void untile_scales_128x4(std::span<const std::uint8_t> in, std::uint64_t rows, std::uint64_t cols,
                         std::span<std::uint8_t> out) {
  require_bytes("The buffer for row-major scales", out.size(), {1, rows, cols});
  require_bytes("A tiled 128x4 scale matrix", in.size(),
                {1, padded_scale_rows(rows), padded_scale_cols(cols)});
  if (out.empty()) return;
  // Row by row: writes are contiguous, and the 16 rows that share the lines read come while those are cached.
  for (std::uint64_t row = 0; row < rows; ++row) {
    const std::uint8_t* source = in.data() + scale_128x4_offset(row, 0, padded_scale_cols(cols));
    std::uint8_t* destination = out.data() + row * cols;
    std::uint64_t col = 0;
    for (; col + group <= cols; col += group, source += tile_bytes) {
      std::memcpy(destination + col, source, group);
    }
    if (col < cols) std::memcpy(destination + col, source, cols - col);
  }
}

}  // namespace refit::layout
