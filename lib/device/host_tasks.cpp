// One pass from a source row to where it belongs.
#include "device/host_tasks.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/streamed_copy.hpp"
#include "device/non_finite.hpp"
#include "refit/layout/moe_shuffle.hpp"
#include "refit/layout/scale_128x4.hpp"

namespace refit::device {
namespace {

constexpr std::uint64_t kPieceBytes = 1u << 20;

std::uint64_t stored_row(const Task& task, std::uint64_t r) noexcept {
  return task.row_map == nullptr ? task.row_begin + r : (*task.row_map)[task.row_begin + r];
}

/// Where the scales of a stored row begin; tiled ones go on every 512 bytes, four columns at a time.
std::uint64_t scale_row_at(const Task& task, std::uint64_t stored, std::uint64_t columns) {
  if (task.scale_layout == plan::ScaleLayout::row_major) return stored * columns;
  return layout::scale_128x4_offset(stored, 0, layout::padded_scale_cols(columns));
}

/// Writes `count` scales of one row, from column `first` of `columns` on, to their stored place: as many at a
/// time as the tiled layout keeps together. Whoever writes the last column fills its tile up with zeros.
void store_scales(const Task& task, std::uint64_t stored, const std::uint8_t* row_scales, std::uint64_t count,
                  std::uint64_t first, std::uint64_t columns) {
  std::byte* const row = task.scales + scale_row_at(task, stored, columns);
  if (task.scale_layout == plan::ScaleLayout::row_major) {
    std::memcpy(row + first, row_scales, count);
    return;
  }
  const auto place = [row](std::uint64_t column) { return row + column / 4 * 512 + column % 4; };
  for (std::uint64_t done = 0; done < count;) {
    const std::uint64_t column = first + done, together = std::min(4 - column % 4, count - done);
    std::memcpy(place(column), row_scales + done, together);
    done += together;
  }
  if (first + count == columns && columns % 4 != 0) std::memset(place(columns), 0, 4 - columns % 4);
}

void quantize(const Task& task) {
  const std::uint64_t blocks = task.cols / quant::kBlock, stored_cols = task.stored_cols();
  // Scales of whole canonical rows need no stop on the way to their place.
  const bool in_place = task.row_map == nullptr && task.scale_layout == plan::ScaleLayout::row_major &&
                        task.cols == stored_cols;
  std::vector<std::uint8_t> own_scales(in_place ? 0 : task.rows * blocks);
  std::uint8_t* const row_scales =
      in_place ? reinterpret_cast<std::uint8_t*>(task.scales) + task.row_begin * blocks : own_scales.data();
  std::vector<quant::Row> rows(task.rows);
  for (std::uint64_t r = 0; r < task.rows; ++r) {
    rows[r] = {reinterpret_cast<const std::uint16_t*>(task.from + r * task.row_bytes),
               reinterpret_cast<std::uint8_t*>(task.values) + stored_row(task, r) * stored_cols + task.to_col,
               row_scales + r * blocks};
  }
  if (!quant::quantize_rows(rows, task.cols, task.options) &&
      task.options.non_finite == quant::NonFinite::refuse) {
    refuse_non_finite(task);
  }
  if (in_place) return;
  for (std::uint64_t r = 0; r < task.rows; ++r) {
    store_scales(task, stored_row(task, r), row_scales + r * blocks, blocks, task.to_col / quant::kBlock,
                 stored_cols / quant::kBlock);
  }
}

void copy(const Task& task) {
  const std::uint64_t stored_bytes = task.stored_cols();
  if (task.row_map == nullptr && task.cols == task.row_bytes && task.cols == stored_bytes) {
    streamed_copy(task.values + task.row_begin * stored_bytes, task.from, task.rows * task.row_bytes);
    return;
  }
  for (std::uint64_t r = 0; r < task.rows; ++r) {
    std::memcpy(task.values + stored_row(task, r) * stored_bytes + task.to_col,
                task.from + r * task.row_bytes, task.cols);
  }
}

void round_bf16(const Task& task) {
  for (std::uint64_t r = 0; r < task.rows; ++r) {
    std::byte* const to = task.values + (stored_row(task, r) * task.stored_cols() + task.to_col) * 4;
    for (std::uint64_t i = 0; i < task.cols; ++i) {
      float value;
      std::memcpy(&value, task.from + r * task.row_bytes + i * 4, 4);
      // The defect that is reproduced: what goes out as FP32 went through BF16 on the way.
      const float rounded = quant::bf16_value(quant::bf16_from_float(value));
      std::memcpy(to + i * 4, &rounded, 4);
    }
  }
}

void place_scales(const Task& task) {
  for (std::uint64_t r = 0; r < task.rows; ++r) {
    store_scales(task, stored_row(task, r),
                 reinterpret_cast<const std::uint8_t*>(task.from) + r * task.row_bytes, task.cols,
                 task.to_col, task.stored_cols());
  }
}

void zero(const Task& task) {
  const std::vector<std::uint8_t> zeros(task.cols);
  for (std::uint64_t r = 0; r < task.rows; ++r) {
    store_scales(task, stored_row(task, r), zeros.data(), task.cols, task.to_col, task.stored_cols());
  }
}

void execute(const Task& task) {
  switch (task.op) {
    case Op::copy:
      return copy(task);
    case Op::quantize:
      return quantize(task);
    case Op::round_bf16:
      return round_bf16(task);
    case Op::scales:
      return place_scales(task);
    case Op::zero:
      return zero(task);
  }
}

}  // namespace

std::vector<Task> cut_into_pieces(std::span<const Task> tasks) {
  std::vector<Task> pieces;
  pieces.reserve(tasks.size());
  for (const Task& task : tasks) {
    const std::uint64_t row_bytes = std::max<std::uint64_t>(1, std::max(task.row_bytes, task.cols));
    const std::uint64_t rows = std::max<std::uint64_t>(1, kPieceBytes / row_bytes);
    for (std::uint64_t begin = 0; begin < task.rows; begin += rows) {
      Task piece = task;
      piece.from = task.from == nullptr ? nullptr : task.from + begin * task.row_bytes;
      piece.row_begin += begin;
      piece.first_row += begin;
      piece.rows = std::min(rows, task.rows - begin);
      pieces.push_back(piece);
    }
  }
  return pieces;
}

void execute_pieces(std::span<const Task> pieces, ThreadPool& pool) {
  pool.for_range(pieces.size(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) execute(pieces[i]);
  });
}

void parallel_copy(std::byte* to, const std::byte* from, std::uint64_t bytes, ThreadPool& pool) {
  const std::uint64_t pieces = (bytes + kPieceBytes - 1) / kPieceBytes;
  pool.for_range(pieces, 1, [&](std::size_t begin, std::size_t end) {
    const std::uint64_t first = begin * kPieceBytes;
    streamed_copy(to + first, from + first, std::min(bytes, end * kPieceBytes) - first);
  });
}

std::uint64_t shuffle_scratch_bytes(const Shuffle& what, ThreadPool& pool) {
  return pool.threads() * what.rows * what.row_bytes;
}

void shuffle_in_place(const Shuffle& what, std::byte* scratch, ThreadPool& pool) {
  const std::uint64_t matrix_bytes = what.rows * what.row_bytes;
  const std::vector<std::uint32_t> source_rows = layout::inverse(*what.row_map);
  const layout::ExpertRows one{1, what.rows, what.row_bytes};
  std::atomic<std::uint64_t> next_matrix{0};
  pool.for_range(pool.threads(), 1, [&](std::size_t thread, std::size_t) {
    std::byte* const own = scratch + thread * matrix_bytes;
    for (std::uint64_t m = 0; (m = next_matrix.fetch_add(1)) < what.matrices;) {
      std::byte* const matrix = what.data + m * matrix_bytes;
      std::memcpy(own, matrix, matrix_bytes);
      layout::gather_rows_batched({reinterpret_cast<const std::uint8_t*>(own), matrix_bytes}, one,
                                  source_rows, {reinterpret_cast<std::uint8_t*>(matrix), matrix_bytes});
    }
  });
}

}  // namespace refit::device
