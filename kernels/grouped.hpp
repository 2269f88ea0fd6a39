// The grouped kernel's input: units of work, cut into tiles; one launch runs them all.
//
// A block takes one tile. Rows keep the engine's order on the way: a unit is (part of) a matrix, its tiles
// are 128 stored rows x a few columns, and a stored row is looked up in the unit's parts, which say where the
// canonical row comes from. Work that is contiguous on both sides is a flat stream instead.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/launch.hpp"

namespace refit::kernels {

/// What a tile is. `index` counts a unit's tiles, columns first.
enum class UnitKind : std::uint8_t {
  flat_bytes,     ///< kFlatBytes bytes of `size`
  flat_quantize,  ///< kFlatElements elements of `size`, and their scales
  rows_bytes,     ///< kTileRows stored rows x kTileBytes bytes
  rows_quantize,  ///< kTileRows stored rows x kTileElements elements, and their scales
  rows_scales,    ///< kTileRows stored rows x kTileScales scale columns, into 128x4 tiles
};
inline constexpr std::uint32_t kTileRows = 128;
inline constexpr std::uint32_t kTileBytes = 512;
inline constexpr std::uint32_t kTileElements = 256;
inline constexpr std::uint32_t kTileScales = 64;
inline constexpr std::uint32_t kFlatBytes = 64 << 10;
inline constexpr std::uint32_t kFlatElements = kTileRows * kTileElements;

/// What becomes of bytes and scales on the way.
enum class Change : std::uint8_t {
  none,
  round_bf16,  ///< FP32 through BF16 and back
  zero,        ///< zero bytes, whatever the source
};

/// How the maximum of a block becomes its scale: with b the bits of the largest magnitude,
/// scale = max((b + add) / 128 - subtract, at_least), for b = 0 and from `first` on to first + range. Beyond,
/// kernels/quantize.cuh goes by `rounding` (the numbers are those of quant/constants.hpp).
struct QuantRule {
  std::uint16_t add = 0, subtract = 0, first = 0, range = 0;
  std::uint8_t at_least = 0;
  Rounding rounding = Rounding::flashinfer;
  ZeroScale zero_scale = ZeroScale::keep;
  bool refuses_non_finite = false;  ///< whether infinite and NaN elements are reported
};

/// Canonical rows [row_begin, row_begin + rows) of a unit.
struct UnitPart {
  const std::byte* from = nullptr;  ///< of row_begin
  std::uint32_t row_begin = 0, rows = 0;
  std::uint32_t task = 0;  ///< index in the list of tasks
  std::uint32_t unused = 0;
};

struct Unit {
  const std::byte* from = nullptr;  ///< flat kinds: the first byte
  std::byte* values = nullptr;      ///< flat kinds: the first byte; else the first column of stored row 0
  std::byte* scales = nullptr;      ///< flat kinds: the first byte; else column 0 of stored row 0
  const std::uint32_t* source_rows = nullptr;  ///< stored -> canonical row; null: itself
  std::uint64_t size = 0;                      ///< flat kinds: bytes or elements
  std::uint64_t stride = 0;                    ///< bytes between source rows
  std::uint32_t width = 0;       ///< that moves of a row: bytes, elements, or scale columns without padding
  std::uint32_t pitch = 0;       ///< from one stored row to the next, counted as width is; 0 for flat kinds
  std::uint32_t scale_cols = 0;  ///< of a stored row, without padding
  std::uint32_t scale_col = 0;   ///< where the first of them goes
  std::uint32_t column_tiles = 1;
  std::uint32_t first_row = 0, end_row = 0;  ///< stored rows; the first is a multiple of kTileRows
  std::uint32_t first_tile = 0;              ///< in the list of all tiles
  std::uint32_t first_part = 0, parts = 0;
  std::uint32_t task = 0;  ///< index in the list of tasks: flat kinds, else of the first part
  QuantRule rule;
  UnitKind kind = UnitKind::flat_bytes;
  Change change = Change::none;
  ScaleLayout scale_layout = ScaleLayout::none;
  bool wide = false;         ///< alignment and width allow 16-byte loads (rows_scales: 4-byte)
  bool scale_words = false;  ///< and 4-byte stores of scales
};

/// Where things are in the blob that the host uploads, in bytes.
struct GroupedShape {
  std::uint64_t units = 0;       ///< Unit[]
  std::uint64_t parts = 0;       ///< UnitPart[]
  std::uint64_t tile_units = 0;  ///< std::uint32_t[tile_count]: the unit that a tile belongs to
  std::uint32_t tile_count = 0;
};

/// Runs all tiles. Sources and destinations do not overlap. Where a unit refuses them, the smallest of
/// (id_base + task) << 36 | element of the task, over all infinite and NaN elements, is min-ed into
/// *first_non_finite, a device word.
void run_grouped(const GroupedShape& shape, const std::byte* device_blob,
                 unsigned long long* first_non_finite, std::uint64_t id_base, Stream stream);

}  // namespace refit::kernels
