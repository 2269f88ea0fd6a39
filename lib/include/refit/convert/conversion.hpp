// What a conversion of checkpoint files will write, as data: output tensors, and for each the boxes of source
// tensors that fill it. Computed before a byte is read or written.
//
//   source [rows, cols]              target: `matrices` of matrix_rows x cols
//   +-----------------+   op         +-----------------+  matrix m
//   |   +---------+   | -----------> |  row_begin ..   |  stored row n holds canonical row order[n],
//   |   | box     |   |              |  + rows         |  or row n without an order
//   +---+---------+---+              +-----------------+
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "refit/checkpoint/checkpoint.hpp"
#include "refit/layout/moe_shuffle.hpp"
#include "refit/model/inventory.hpp"
#include "refit/model/recipe.hpp"
#include "refit/quant/mxfp8.hpp"
#include "refit/tensor/tensor.hpp"

namespace refit::convert {

inline constexpr std::uint32_t kNone = 0xFFFFFFFF;

enum class Format : std::uint8_t { mxfp8, bf16 };
enum class Layout : std::uint8_t {
  checkpoint,         ///< tensors as they are, row-major scales [.., K/32]
  linear_128x4,       ///< scales of every matrix tiled 128x4
  flashinfer_trtllm,  ///< routed experts stacked, rows shuffled; all scales tiled 128x4
};
[[nodiscard]] std::string_view name_of(Format format) noexcept;
[[nodiscard]] std::string_view name_of(Layout layout) noexcept;
[[nodiscard]] std::optional<Format> parse_format(std::string_view name) noexcept;
[[nodiscard]] std::optional<Layout> parse_layout(std::string_view name) noexcept;

struct Options {
  Format format = Format::mxfp8;
  Layout layout = Layout::checkpoint;
  quant::Options quant{};
  std::optional<model::RecipeKind> recipe{};  ///< nothing: by the model
  /// `*` and `?` as in a shell, over the whole name; a pattern without either is a part of a name. Ignored
  /// tensors stay as they are.
  std::vector<std::string> ignore{};
  std::vector<std::string> select{};  ///< not empty: these and no others, instead of a recipe
  std::string scale_suffix = "_scale";
  std::uint64_t tp_size = 1, tp_rank = 0;
};

enum class Op : std::uint8_t {
  copy,        ///< bytes as they are
  cast,        ///< FP32 or FP16 to BF16, to nearest even
  quantize,    ///< BF16 (FP32, FP16: through BF16) to E4M3 and E8M0
  carry,       ///< E4M3 and E8M0 as they are
  dequantize,  ///< E4M3 and E8M0 to BF16, the exact value to nearest even
};

/// A box of a source tensor and where its rows belong in the target.
struct Piece {
  std::uint32_t source = kNone;  ///< index into Checkpoint::tensors(); none: rows of zeros, col and stride 0
  std::uint32_t scales = kNone;  ///< carry, dequantize: the tensor of its scales
  DType dtype{};                 ///< of the source; of zeros, that of the tensor they stand below
  std::uint64_t row = 0, rows = 0;
  std::uint64_t col = 0;        ///< first column; as many as the target has
  std::uint64_t stride = 0;     ///< elements from one source row to the next
  std::uint64_t row_begin = 0;  ///< canonical row of the target's matrix
};

struct Target {
  Op op = Op::copy;
  std::uint32_t values = kNone;  ///< index into Conversion::outputs
  std::uint32_t scales = kNone;  ///< quantize, carry: the output of the scales
  bool tiled = false;            ///< scales 128x4 instead of row-major
  std::uint64_t matrices = 1, matrix_rows = 0, cols = 0;
  std::uint32_t order = kNone;  ///< index into Conversion::orders
  /// Matrix after matrix, as many for each, by row_begin and without gaps.
  std::vector<Piece> pieces;
};

struct Conversion {
  std::vector<TensorSpec> outputs;
  std::vector<Target> targets;  ///< in the order of their outputs
  std::vector<layout::SourceRows> orders;
  quant::Options quant;
  std::optional<model::RecipeKind> recipe;  ///< that chose what to quantize, if one did
  std::vector<std::string> kept_modules;    ///< matrices that stay unquantized, as vLLM names modules
  std::vector<std::string> notes;           ///< what a reader of the output has to know
  std::vector<std::string> warnings;        ///< what is not as the model's configuration says
  std::uint64_t source_bytes = 0;           ///< that are read
  [[nodiscard]] std::uint64_t output_bytes() const;
  std::array<std::uint64_t, 5> tensors{};  ///< source tensors by operation
  [[nodiscard]] std::uint64_t count(Op op) const noexcept { return tensors[static_cast<std::size_t>(op)]; }
};

/// `model`, where there is a config.json, says what the tensors are: needed for recipes and tp_size > 1.
/// Without it every BF16, FP16 or FP32 tensor of 2 or 3 dimensions whose name ends in "weight" and whose last
/// dimension is a multiple of 32 is quantized. A source that is MXFP8 already is only laid out, unless a
/// recipe or a selection says otherwise. Throws Error(input) naming tensor and numbers for what cannot be
/// converted.
[[nodiscard]] Conversion conversion_of(const checkpoint::Checkpoint& source, const model::Inventory* model,
                                       const Options& options);

}  // namespace refit::convert
