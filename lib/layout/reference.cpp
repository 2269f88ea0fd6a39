// The references of the module: upstream's reshapes one after the other, each into a new buffer.
//
// Nothing here uses the index formulas of the fast paths; every step but padding is one exchange of two axes.
#include <algorithm>

#include "layout/sizes.hpp"
#include "refit/layout/moe_shuffle.hpp"
#include "refit/layout/scale_128x4.hpp"

namespace refit::layout {
namespace {

using Bytes = std::vector<std::uint8_t>;
using View = std::span<const std::uint8_t>;

/// The five axes that a buffer of bytes is viewed as; those named a and b change places.
struct Axes {
  std::uint64_t outer, a, middle, b, inner;
};

Bytes swap_axes(View in, const Axes& axes) {
  Bytes out(in.size());
  auto to = out.begin();
  for (std::uint64_t o = 0; o < axes.outer; ++o) {
    for (std::uint64_t b = 0; b < axes.b; ++b) {
      for (std::uint64_t m = 0; m < axes.middle; ++m) {
        for (std::uint64_t a = 0; a < axes.a; ++a) {
          const std::uint64_t from = (((o * axes.a + a) * axes.middle + m) * axes.b + b) * axes.inner;
          to = std::copy_n(in.begin() + static_cast<std::ptrdiff_t>(from), axes.inner, to);
        }
      }
    }
  }
  return out;
}

std::uint64_t next_multiple(std::uint64_t value, std::uint64_t of) {
  while (value % of != 0) ++value;
  return value;
}

/// [rows, cols] in the upper left corner of zeros [padded_rows, padded_cols].
Bytes pad(View in, std::uint64_t rows, std::uint64_t cols, std::uint64_t padded_rows,
          std::uint64_t padded_cols) {
  Bytes out(padded_rows * padded_cols, 0);
  for (std::uint64_t r = 0; r < rows; ++r) {
    for (std::uint64_t c = 0; c < cols; ++c) out[r * padded_cols + c] = in[r * cols + c];
  }
  return out;
}

/// vLLM swap_w13_to_w31: [w1; w3] to [w3; w1].
Bytes swap_halves(View in) {
  Bytes out(in.begin(), in.end());
  std::rotate(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(out.size() / 2), out.end());
  return out;
}

/// FlashInfer reorder_rows_for_gated_act_gemm: [2, rows/2] to [rows/2, 2], row by row from each half.
Bytes interleave_halves(View in, std::uint64_t rows, std::uint64_t row_bytes) {
  return swap_axes(in, {.outer = 1, .a = 2, .middle = 1, .b = rows / 2, .inner = row_bytes});
}

/// FlashInfer shuffle_matrix_a for epilogue tile 128: every 32 rows are [8, 4] and become [4, 8].
Bytes shuffle_blocks(View in, std::uint64_t rows, std::uint64_t row_bytes) {
  return swap_axes(in, {.outer = rows / 32, .a = 8, .middle = 1, .b = 4, .inner = row_bytes});
}

Bytes reorder(View matrix, std::uint64_t rows, std::uint64_t row_bytes, bool gated) {
  if (!gated) return shuffle_blocks(matrix, rows, row_bytes);
  const Bytes up_first = swap_halves(matrix);
  const Bytes interleaved = interleave_halves(up_first, rows, row_bytes);
  return shuffle_blocks(interleaved, rows, row_bytes);
}

ShuffledExpert shuffle_expert(View weight, View scales, const ExpertRows& what, std::uint64_t scale_cols,
                              bool gated) {
  require_bytes("The weight of one expert", weight.size(), {1, what.rows, what.row_bytes});
  require_bytes("The scale matrix of one expert", scales.size(), {1, what.rows, scale_cols});
  const std::uint64_t padded_cols = next_multiple(scale_cols, 4);
  const Bytes padded = pad(scales, what.rows, scale_cols, what.rows, padded_cols);
  const Bytes reordered = reorder(padded, what.rows, padded_cols, gated);
  return {.weight = reorder(weight, what.rows, what.row_bytes, gated),
          .scales = tile_scales_128x4_reference(reordered, what.rows, padded_cols)};
}

}  // namespace

std::vector<std::uint8_t> tile_scales_128x4_reference(View in, std::uint64_t rows, std::uint64_t cols) {
  require_bytes("A row-major scale matrix to tile", in.size(), {1, rows, cols});
  if (in.empty()) return {};
  const std::uint64_t padded_rows = next_multiple(rows, 128);
  const std::uint64_t padded_cols = next_multiple(cols, 4);
  const Bytes padded = pad(in, rows, cols, padded_rows, padded_cols);
  // View [Mp/128, 4, 32, Cp/4, 4]; axes 1 and 3 change places.
  return swap_axes(padded,
                   {.outer = padded_rows / 128, .a = 4, .middle = 32, .b = padded_cols / 4, .inner = 4});
}

ShuffledExpert shuffle_w13_expert_reference(View weight, View scales, std::uint64_t rows,
                                            std::uint64_t row_bytes, std::uint64_t scale_cols, bool gated) {
  require_tiled_rows(gated ? "gated w13" : "non-gated w13", rows);
  return shuffle_expert(weight, scales, {.experts = 1, .rows = rows, .row_bytes = row_bytes}, scale_cols,
                        gated);
}

ShuffledExpert shuffle_w2_expert_reference(View weight, View scales, std::uint64_t rows,
                                           std::uint64_t row_bytes, std::uint64_t scale_cols) {
  require_tiled_rows("w2", rows);
  return shuffle_expert(weight, scales, {.experts = 1, .rows = rows, .row_bytes = row_bytes}, scale_cols,
                        false);
}

}  // namespace refit::layout
