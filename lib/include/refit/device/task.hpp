// Rows on their way from one place to another: the only kind of work that moves weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "refit/plan/plan.hpp"
#include "refit/quant/mxfp8.hpp"

namespace refit::device {

enum class Op : std::uint8_t {
  copy,        ///< rows of `row_bytes` as they are
  quantize,    ///< BF16 rows to E4M3 rows and E8M0 scales
  round_bf16,  ///< FP32 rows through BF16 and back
  scales,      ///< row-major scale rows into the scale layout, column padding zeroed
  zero,        ///< zero bytes into rows of the scale layout, column padding too; no source
};

/// Row r of [0, rows) goes from from + r * row_bytes to row map[row_begin + r] of `values` (row_begin + r
/// without a map); its scales to the same row of `scales`. Either side may be a part of wider rows. Addresses
/// belong to the backend, everything else to the host.
struct Task {
  Op op = Op::copy;
  quant::Options options;           ///< quantize
  const std::byte* from = nullptr;  ///< the first row
  std::byte* values = nullptr;      ///< row 0 of the matrix; null for scales and zero
  std::byte* scales = nullptr;      ///< byte 0 of the matrix's scales; null for copy and round_bf16
  std::uint64_t row_begin = 0, rows = 0;
  std::uint64_t cols = 0;       ///< that move of a row: elements; copy: bytes; scales, zero: scale bytes
  std::uint64_t row_bytes = 0;  ///< from one source row to the next
  /// Columns [to_col, to_col + cols) of stored rows of `to_cols`, counted as cols are; 0: rows are whole.
  /// quantize: multiples of 32. What ends a row also writes the column padding of tiled scales.
  std::uint64_t to_col = 0, to_cols = 0;
  const std::vector<std::uint32_t>* row_map = nullptr;  ///< canonical row -> stored row; outlives the task
  plan::ScaleLayout scale_layout = plan::ScaleLayout::none;
  const std::string* tensor = nullptr;  ///< for messages; outlives the task
  std::uint64_t first_row = 0;          ///< of the tensor, for messages
  [[nodiscard]] std::uint64_t stored_cols() const noexcept { return to_cols == 0 ? cols : to_cols; }
};

/// All rows of `matrices` stacked matrices take their stored place: row r of each goes to row row_map[r].
struct Shuffle {
  std::byte* data = nullptr;
  std::uint64_t matrices = 0, rows = 0, row_bytes = 0;
  const std::vector<std::uint32_t>* row_map = nullptr;
};

/// The task of rows [row_begin, row_begin + rows) of a plan's segment, from the source's place in `sources`
/// to their final place in `destinations`.
[[nodiscard]] Task task_of(const plan::Plan& plan, std::uint32_t segment, std::uint64_t row_begin,
                           std::uint64_t rows, const std::byte* sources, std::byte* destinations);

}  // namespace refit::device
