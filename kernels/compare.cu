// Verification: what lies at a destination against what plain code says has to lie there. One block a tile;
// nothing here is shared with the kernels that are judged.
#include "kernels/difference.cuh"
#include "kernels/launch.hpp"
#include "kernels/reference.cuh"

namespace refit::kernels {
namespace {

constexpr std::uint32_t kThreads = 256;
constexpr std::uint32_t kBlock = reference::kBlock;
constexpr std::uint32_t kCopyUnit = 16;  // bytes

__host__ __device__ std::uint64_t units_of_row(const Compare& item) {
  switch (item.expect) {
    case Expect::copy:
      return (item.row_bytes + kCopyUnit - 1) / kCopyUnit;
    case Expect::quantize:
      return item.cols / kBlock;
    case Expect::scales:
    case Expect::places:
      break;
  }
  return 1;
}

/// N words from any address.
template <std::uint32_t N>
__device__ void load_words(const std::byte* from, std::uint32_t (&words)[N]) {
  static_assert(N % 4 == 0);
  if (reinterpret_cast<std::uintptr_t>(from) % sizeof(uint4) == 0) {
    for (std::uint32_t i = 0; i < N; i += 4) {
      const uint4 four = *reinterpret_cast<const uint4*>(from + i * 4);
      words[i] = four.x;
      words[i + 1] = four.y;
      words[i + 2] = four.z;
      words[i + 3] = four.w;
    }
    return;
  }
  for (std::uint32_t i = 0; i < N; ++i) {
    words[i] = 0;
    for (std::uint32_t b = 0; b < 4; ++b) words[i] |= static_cast<std::uint32_t>(from[i * 4 + b]) << 8 * b;
  }
}

/// Whole words first: which bytes differ matters only where any does.
template <std::uint32_t N>
__device__ void judge_words(Difference& found, std::uint64_t offset, const std::uint32_t (&expected)[N],
                            const std::uint32_t (&got)[N]) {
  std::uint32_t differing_bits = 0;
  for (std::uint32_t i = 0; i < N; ++i) differing_bits |= expected[i] ^ got[i];
  if (differing_bits == 0) return;
  for (std::uint32_t i = 0; i < N; ++i) {
    for (std::uint32_t b = 0; b < 4; ++b) {
      judge(found, offset + i * 4 + b, expected[i] >> 8 * b & 0xFF, got[i] >> 8 * b & 0xFF);
    }
  }
}

__device__ std::uint64_t stored_row(const Compare& item, std::uint64_t r) {
  const std::uint64_t canonical = item.row_begin + r;
  return item.stored_rows == nullptr ? canonical : item.stored_rows[canonical];
}

// --- scales --------------------------------------------------------------------------------------------

/// Columns of a stored row of scales.
__host__ __device__ std::uint64_t padded_columns(ScaleLayout layout, std::uint64_t columns) {
  return layout == ScaleLayout::tiled_128x4 ? (columns + 3) / 4 * 4 : columns;
}

/// Tiled: tiles of 128 rows and 4 columns are 512 bytes, one after the other along a row of tiles. Inside a
/// tile, 16 bytes hold rows r, r + 32, r + 64 and r + 96, four columns each.
__host__ __device__ std::uint64_t scale_offset(ScaleLayout layout, std::uint64_t row, std::uint64_t column,
                                               std::uint64_t columns) {
  if (layout != ScaleLayout::tiled_128x4) return row * columns + column;
  const std::uint64_t tiles_of_row = padded_columns(layout, columns) / 4;
  const std::uint64_t tile = row / 128 * tiles_of_row + column / 4;
  const std::uint64_t quarter = row % 128 / 32;
  return tile * 512 + row % 32 * 16 + quarter * 4 + column % 4;
}

__device__ void judge_scale(const Compare& item, Difference& found, std::uint64_t offset,
                            std::uint32_t expected) {
  judge(found, offset, expected, static_cast<std::uint32_t>(item.scales[offset]));
}

/// Columns [first, padded) of a stored row are zero.
__device__ void judge_zero_scales(const Compare& item, Difference& found, std::uint64_t row,
                                  std::uint64_t first, std::uint64_t columns) {
  for (std::uint64_t c = first; c < padded_columns(item.scale_layout, columns); ++c) {
    judge_scale(item, found, scale_offset(item.scale_layout, row, c, columns), 0);
  }
}

/// The scale of block c of the item's row r, which is row `stored` of the destination.
__device__ void judge_block_scale(const Compare& item, Difference& found, std::uint64_t r,
                                  std::uint64_t stored, std::uint64_t c, std::uint32_t expected) {
  const std::uint64_t columns = item.cols / kBlock;
  if (item.scale_places != nullptr) {
    judge_scale(item, found, item.scale_places[(item.row_begin + r) * columns + c], expected);
    return;
  }
  judge_scale(item, found, scale_offset(item.scale_layout, stored, c, columns), expected);
  if (c == columns - 1) judge_zero_scales(item, found, stored, columns, columns);
}

// --- units ---------------------------------------------------------------------------------------------

__device__ void judge_copy(const Compare& item, std::uint64_t r, std::uint64_t unit, Difference& in_values) {
  if (item.values == nullptr) return;
  const std::uint64_t at = unit * kCopyUnit;
  const std::uint64_t offset = stored_row(item, r) * item.row_bytes + at;
  const std::byte* const from = item.from + r * item.row_bytes + at;
  const std::byte* const to = item.values + offset;
  if (item.row_bytes - at >= kCopyUnit) {
    std::uint32_t expected[kCopyUnit / 4], got[kCopyUnit / 4];
    load_words(from, expected);
    load_words(to, got);
    judge_words(in_values, offset, expected, got);
    return;
  }
  for (std::uint32_t b = 0; b < item.row_bytes - at; ++b) {
    judge(in_values, offset + b, static_cast<std::uint32_t>(from[b]), static_cast<std::uint32_t>(to[b]));
  }
}

__device__ void judge_quantize(const Compare& item, std::uint64_t r, std::uint64_t c, Difference& in_values,
                               Difference& in_scales) {
  reference::Bf16Block source;
  load_words(item.from + r * item.row_bytes + c * kBlock * 2, source.words);
  const std::uint64_t stored = stored_row(item, r);
  const std::uint64_t offset = stored * item.cols + c * kBlock;
  std::uint32_t got[kBlock / 4] = {};
  if (item.values != nullptr) load_words(item.values + offset, got);

  const reference::Mxfp8Block expected = reference::quantize_block(source, item.rounding, item.zero_scale);
  if (item.values != nullptr) judge_words(in_values, offset, expected.words, got);
  if (item.scales != nullptr) judge_block_scale(item, in_scales, r, stored, c, expected.scale);
}

__device__ void judge_unit(const Compare& item, std::uint64_t unit, Difference& in_values,
                           Difference& in_scales) {
  const std::uint64_t units = units_of_row(item);
  const std::uint64_t r = unit / units, in_row = unit - r * units;
  switch (item.expect) {
    case Expect::copy:
      return judge_copy(item, r, in_row, in_values);
    case Expect::quantize:
      return judge_quantize(item, r, in_row, in_values, in_scales);
    case Expect::scales:
      return judge_zero_scales(item, in_scales, stored_row(item, r), 0, item.cols);
    case Expect::places:
      return judge_scale(item, in_scales, item.scale_places[r], 0);
  }
}

__global__ void __launch_bounds__(kThreads)
    compare_kernel(const Compare* __restrict__ items, const Tile* __restrict__ tiles, Difference* values,
                   Difference* scales) {
  const Tile tile = tiles[blockIdx.x];
  const Compare& item = items[tile.item];
  const std::uint64_t units = item.rows * units_of_row(item);
  const std::uint64_t begin = tile.index * kCompareTile;
  const std::uint64_t end = begin + kCompareTile < units ? begin + kCompareTile : units;
  Difference in_values, in_scales;
  for (std::uint64_t unit = begin + threadIdx.x; unit < end; unit += kThreads) {
    judge_unit(item, unit, in_values, in_scales);
  }
  add_of_warp(in_values, values + tile.item);
  add_of_warp(in_scales, scales + tile.item);
}

}  // namespace

std::uint64_t compare_units(const Compare& item) {
  return item.rows * units_of_row(item);
}

void compare(const Compare* items, const Tile* tiles, std::uint32_t tile_count, Difference* values,
             Difference* scales, Stream stream) {
  if (tile_count == 0) return;
  compare_kernel<<<tile_count, kThreads, 0, stream>>>(items, tiles, values, scales);
}

}  // namespace refit::kernels
