// A refit as data: typed segments from slices of source tensors to slices of the engine's parameters,
// computed once and replayed every step. Same inputs, same plan, byte for byte.
//
//   source tensor [rows, cols]           destination tensor: `matrices` stacked [matrix_rows, cols]
//   +--------------------+               +--------------------+  matrix m
//   |  source_row ..     |  op           |   row_begin ..     |  row r of the segment lands on matrix row
//   |  + rows            | ------------> |   + rows           |  map[row_begin + r], or row_begin + r without
//   a map
//   +--------------------+               +--------------------+
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "refit/model/inventory.hpp"
#include "refit/model/recipe.hpp"
#include "refit/quant/mxfp8.hpp"
#include "refit/tensor/tensor.hpp"

namespace refit::plan {

inline constexpr std::uint32_t kNone = 0xFFFFFFFF;
/// Every tensor of an arena starts on this boundary, and this many guard bytes stand before the first,
/// between any two and after the last.
inline constexpr std::uint64_t kArenaAlignment = 256;

enum class Op : std::uint8_t {
  copy,        ///< rows as they are
  quantize,    ///< BF16 rows to E4M3 rows and E8M0 scales
  round_bf16,  ///< FP32 through BF16 and back to FP32: reproduces router_bias=bf16
  zero,        ///< fill rows of a scale destination's padding with zero bytes; no source
};

enum class ScaleLayout : std::uint8_t {
  none,         ///< not a quantize segment
  row_major,    ///< [matrices, matrix_rows, cols / 32]
  tiled_128x4,  ///< per matrix scale_128x4_bytes(matrix_rows, cols / 32)
};

/// How the engine wants its stacked experts.
enum class MoeLayout : std::uint8_t {
  flashinfer_trtllm,  ///< rows shuffled, scales 128x4
  checkpoint,         ///< [gate; up] rows in checkpoint order, row-major scales
};

/// "flashinfer-trtllm", "checkpoint".
[[nodiscard]] std::string_view name_of(MoeLayout layout) noexcept;
[[nodiscard]] std::optional<MoeLayout> parse_moe_layout(std::string_view name) noexcept;

struct Source {
  TensorSpec spec;
  std::uint64_t offset = 0;  ///< in the trainer's arena
  model::Kind kind{};
  int layer = -1;
};

struct Destination {
  TensorSpec spec;                 ///< the engine's name and shape (scales: U8)
  std::uint64_t offset = 0;        ///< in the generator's arena
  std::uint64_t matrices = 1;      ///< experts of a stacked tensor, else 1
  std::uint64_t matrix_rows = 0;   ///< rows of one matrix (a scale destination: of the weight it belongs to)
  std::uint64_t matrix_bytes = 0;  ///< bytes of one matrix
  std::uint32_t row_map = kNone;   ///< index into Plan::row_maps: canonical row -> stored row
  bool gated = false;              ///< w13 of gated experts
  ScaleLayout scale_layout = ScaleLayout::none;  ///< of a scale destination
  std::uint32_t scale_of = kNone;                ///< a scale destination: the weight it belongs to
  std::uint32_t scale = kNone;                   ///< a quantized weight: its scale destination
  int layer = -1;
};

struct Segment {
  Op op = Op::copy;
  std::uint32_t source = kNone;
  std::uint64_t source_row = 0;  ///< first row of the source
  std::uint64_t rows = 0;
  std::uint64_t cols = 0;  ///< elements a row: the whole width on both sides
  std::uint32_t destination = kNone;
  std::uint64_t matrix = 0;
  std::uint64_t row_begin = 0;  ///< canonical row of the matrix where the segment's first row belongs
  std::string wire_name;        ///< the key under which a staged refit sends it: the Hugging Face name
};

/// What decides a plan.
struct Request {
  model::Inventory model;
  model::Recipe recipe;
  MoeLayout moe_layout = MoeLayout::flashinfer_trtllm;
  quant::Options quant;
  bool router_bias_bf16 = false;
};

struct Plan {
  std::vector<Source> sources;
  std::vector<Destination> destinations;
  std::vector<Segment> segments;                     ///< in the order of the sources; zero segments last
  std::vector<std::vector<std::uint32_t>> row_maps;  ///< canonical row -> stored row
  quant::Options quant;
  MoeLayout moe_layout{};
  std::uint64_t source_arena_bytes = 0, destination_arena_bytes = 0;  ///< with alignment and guards
  std::uint64_t source_bytes = 0, destination_bytes = 0;  ///< tensors alone, scale padding included
  std::uint64_t digest = 0;                               ///< of everything above

  /// The least that has to move: each source byte read once, each destination byte written once.
  [[nodiscard]] std::uint64_t floor_bytes() const noexcept { return source_bytes + destination_bytes; }
};

/// Throws Error(input) with tensor, size and rule for what upstream refuses: K not a multiple of 32, expert
/// rows not a multiple of 128 for flashinfer_trtllm, fused parts of unlike dtype or quantization, slabs whose
/// last dimension is not K (gpt-oss), a source to be quantized that is not BF16.
[[nodiscard]] Plan build(const Request& request);

/// Stored row of the segment's row r inside its matrix.
[[nodiscard]] inline std::uint64_t stored_row(const Plan& plan, const Segment& segment,
                                              std::uint64_t r) noexcept {
  const std::uint32_t map = plan.destinations[segment.destination].row_map;
  return map == kNone ? segment.row_begin + r : plan.row_maps[map][segment.row_begin + r];
}

/// Offset of scale byte (stored row, column) inside the scale destination's matrix.
[[nodiscard]] std::uint64_t scale_offset(const Destination& scale, std::uint64_t stored_row,
                                         std::uint64_t column);

}  // namespace refit::plan
