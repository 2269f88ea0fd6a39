// Every kernel's launcher, in plain C++. Pointers are device addresses; streams are explicit and last;
// nothing here waits or allocates. A launcher throws nothing: the caller checks cudaGetLastError after it.
//
// Work is a list of items of unlike size, cut into tiles of like size: tile t is part `index` of item `item`,
// and one block takes one tile at a time.
#pragma once

#include <cstddef>
#include <cstdint>

struct CUstream_st;

namespace refit::kernels {

using Stream = CUstream_st*;

struct Tile {
  std::uint32_t item = 0, index = 0;
};

/// The same order as quant::Rounding and quant::ZeroScale; lib/cuda checks that at compile time.
enum class Rounding : std::uint8_t {
  flashinfer,
  flashinfer_cuda,
  torchao_rceil,
  torchao_floor,
  torchao_even,
  torchao_ceil,
  vllm_floor,
};
enum class ZeroScale : std::uint8_t { keep, one };
enum class ScaleLayout : std::uint8_t { none, row_major, tiled_128x4 };

// --- ranges of bytes ------------------------------------------------------------------------------------

struct Range {
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
};
/// Tile i of a range is its bytes [i * kRangeTile, (i + 1) * kRangeTile).
inline constexpr std::uint64_t kRangeTile = 64 << 10;

/// Bytes moved: each written once.
void fill_ranges(const Range* ranges, const Tile* tiles, std::uint32_t tile_count, std::uint8_t value,
                 Stream stream);

/// sums[item] += the terms of refit::digest over the range: for its i-th little-endian 64-bit word w (the
/// last filled up with zero bytes) mix64(w + (i + 1) * 0x9E3779B97F4A7C15). digest = sums[item] + mix64(bytes
/// + 1), which the caller adds. Ranges may begin at any address. Bytes moved: each read once.
void digest_ranges(const Range* ranges, const Tile* tiles, std::uint32_t tile_count, std::uint64_t* sums,
                   Stream stream);

/// How an item differs. `first` is the smallest of offset << 16 | expected << 8 | got; ~0 when count is 0.
struct Difference {
  std::uint64_t count = 0, first = ~0ull;
};

/// The byte at arena + p is mix64(p) & 0xFF (verify::fill_guards): written, or compared (offsets in `first`
/// are those from the arena's beginning).
void fill_guards(const Range* ranges, const Tile* tiles, std::uint32_t tile_count, const std::byte* arena,
                 Stream stream);
void check_guards(const Range* ranges, const Tile* tiles, std::uint32_t tile_count, const std::byte* arena,
                  Difference* differences, Stream stream);

// --- weights (lib/device/weights.hpp says which values) ---------------------------------------------------

enum class WeightKind : std::uint8_t { bf16, f32, bytes };
/// `runs` runs of `run` elements of a tensor; run r begins at element first + r * cols and lies at
/// data + r * pitch. Elements are of `kind`.
struct Weights {
  std::byte* data = nullptr;
  std::uint64_t key = 0;       ///< of tensor and seed (fill), or of tensor, seed and step (update)
  std::uint64_t elements = 0;  ///< of the tensor
  std::uint64_t cols = 1;      ///< of the tensor
  std::uint64_t first = 0, run = 0, runs = 0;
  std::uint64_t pitch = 0;  ///< bytes
  WeightKind kind = WeightKind::bytes;
};
/// Tile i of an item is the elements [i * kWeightTile, (i + 1) * kWeightTile) of its runs, one behind the
/// other.
inline constexpr std::uint64_t kWeightTile = 16 << 10;
void fill_weights(const Weights* weights, const Tile* tiles, std::uint32_t tile_count, Stream stream);
void update_weights(const Weights* weights, const Tile* tiles, std::uint32_t tile_count, Stream stream);

// --- verification: plain kernels, written apart from the fast ones
// ------------------------------------------

enum class Expect : std::uint8_t {
  copy,      ///< row r of the source, byte for byte, at row stored_rows[row_begin + r] of `values`
  quantize,  ///< that row quantized; its scales where scale_places or the layout's formula says
  scales,    ///< rows [row_begin, ..) of `scales` hold zero bytes in all (padded) columns; no source
  places,    ///< scales[scale_places[i]] is a zero byte for i in [0, rows); no source
};
struct Compare {
  Expect expect = Expect::copy;
  Rounding rounding = Rounding::flashinfer;
  ZeroScale zero_scale = ZeroScale::keep;
  ScaleLayout scale_layout = ScaleLayout::none;
  const std::byte* from = nullptr;              ///< the first source row
  const std::byte* values = nullptr;            ///< row 0 of what is judged; null: values are not judged
  const std::byte* scales = nullptr;            ///< byte 0 of the scales; null: scales are not judged
  const std::uint32_t* stored_rows = nullptr;   ///< canonical -> stored row; null: itself
  const std::uint32_t* scale_places = nullptr;  ///< [canonical row * (cols / 32) + c] -> offset in `scales`;
                                                ///< null: the formula of scale_layout at the stored row,
                                                ///< whose padded columns have to be zero
  std::uint64_t row_begin = 0, rows = 0;
  std::uint64_t cols = 0;       ///< elements a row; Expect::scales: scale bytes a row, without padding
  std::uint64_t row_bytes = 0;  ///< of a source row
};
/// Tile i of an item is its units [i * kCompareTile, ..): blocks of 32 elements (quantize), 16 bytes (copy:
/// of the rows one after the other, rounded up a row), rows (scales), places (places).
inline constexpr std::uint64_t kCompareTile = 1024;
[[nodiscard]] std::uint64_t compare_units(const Compare& item);
/// values[item] and scales[item]: differences, with offsets from item.values and item.scales.
void compare(const Compare* items, const Tile* tiles, std::uint32_t tile_count, Difference* values,
             Difference* scales, Stream stream);

// --- shuffle
// ------------------------------------------------------------------------------------------------

/// Row n of each of `matrices` stacked matrices becomes its former row source_rows[n], in place. Bytes moved:
/// each read once, each written once. `scratch` holds shuffle_scratch_bytes() bytes (null when that is 0).
[[nodiscard]] std::uint64_t shuffle_scratch_bytes(std::uint64_t rows, std::uint64_t row_bytes);
void shuffle_in_place(std::byte* data, std::uint64_t matrices, std::uint64_t rows, std::uint64_t row_bytes,
                      const std::uint32_t* source_rows, std::byte* scratch, Stream stream);

// --- the rest
// -----------------------------------------------------------------------------------------------

/// out[i] = element * 2^(scale - 127), rounded to FP32 (to nearest even; NaN for elements 0x7F and 0xFF and
/// for scale 0xFF): elements [blocks * 32], row-major scales [blocks].
void dequantize(const std::uint8_t* elements, const std::uint8_t* scales, float* out, std::uint64_t blocks,
                Stream stream);
/// Keeps the stream busy this long.
void delay(std::uint64_t nanoseconds, Stream stream);

}  // namespace refit::kernels
