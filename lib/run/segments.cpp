// One pass from a source row to the engine's parameter.
#include "run/segments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/streamed_copy.hpp"
#include "refit/base/error.hpp"

namespace refit::run {
namespace {

constexpr std::uint64_t kItemBytes = 1u << 20;
std::uint64_t row_bytes_of(const plan::Plan& plan, const plan::Segment& segment) {
  if (segment.op == plan::Op::zero) return segment.cols;
  return segment.cols * size_of(plan.sources[segment.source].spec.dtype);
}

/// Writes one row's scales to their stored place, four at a time where the tiled layout keeps four together,
/// and the zero bytes that fill its columns up.
void store_scales(const plan::Destination& scale, std::byte* matrix, std::uint64_t stored_row,
                  const std::uint8_t* row_scales, std::uint64_t count) {
  if (scale.scale_layout == plan::ScaleLayout::row_major) {
    std::memcpy(matrix + stored_row * count, row_scales, count);
    return;
  }
  std::byte* out = matrix + plan::scale_offset(scale, stored_row, 0);
  std::uint64_t column = 0;
  for (; column + 4 <= count; column += 4, out += 512) std::memcpy(out, row_scales + column, 4);
  if (column < count) {
    std::uint8_t last[4] = {};
    std::memcpy(last, row_scales + column, count - column);
    std::memcpy(out, last, 4);
  }
}

/// The first element of `rows` rows that is not finite, in words.
[[noreturn]] void refuse_non_finite(const std::string& tensor, const std::byte* rows, std::uint64_t row_count,
                                    std::uint64_t cols, std::uint64_t first_row) {
  const auto* bits = reinterpret_cast<const std::uint16_t*>(rows);
  const std::size_t at = quant::find_non_finite({bits, row_count * cols}).value_or(0);
  fail_input(fmt::format(
      "tensor '{}' holds {} at [{}, {}]; weights have to be finite (non_finite=as-producer takes them "
      "as the chosen producer does)",
      tensor, quant::bf16_value(bits[at]), first_row + at / cols, at % cols));
}

void quantize_item(const plan::Plan& plan, const plan::Segment& segment, const WorkItem& item,
                   const std::byte* source_rows, std::span<std::byte> destinations) {
  const plan::Destination& weight = plan.destinations[segment.destination];
  const plan::Destination& scale = plan.destinations[weight.scale];
  std::byte* const values = destinations.data() + weight.offset + segment.matrix * weight.matrix_bytes;
  std::byte* const scales = destinations.data() + scale.offset + segment.matrix * scale.matrix_bytes;
  const std::uint64_t cols = segment.cols;
  const std::uint64_t blocks = cols / quant::kBlock;
  const std::byte* const first = source_rows + (segment.source_row + item.row_begin) * cols * 2;
  std::vector<std::uint8_t> row_scales(item.rows * blocks);
  std::vector<quant::Row> rows(item.rows);
  for (std::uint64_t r = 0; r < item.rows; ++r) {
    const std::uint64_t stored = plan::stored_row(plan, segment, item.row_begin + r);
    rows[r] = {reinterpret_cast<const std::uint16_t*>(first + r * cols * 2),
               reinterpret_cast<std::uint8_t*>(values + stored * cols), row_scales.data() + r * blocks};
  }
  if (!quant::quantize_rows(rows, cols, plan.quant) && plan.quant.non_finite == quant::NonFinite::refuse) {
    refuse_non_finite(plan.sources[segment.source].spec.name, first, item.rows, cols,
                      segment.source_row + item.row_begin);
  }
  for (std::uint64_t r = 0; r < item.rows; ++r) {
    store_scales(scale, scales, plan::stored_row(plan, segment, item.row_begin + r),
                 row_scales.data() + r * blocks, blocks);
  }
}

void copy_item(const plan::Plan& plan, const plan::Segment& segment, const WorkItem& item,
               const std::byte* source_rows, std::span<std::byte> destinations) {
  const plan::Destination& to = plan.destinations[segment.destination];
  std::byte* const matrix = destinations.data() + to.offset + segment.matrix * to.matrix_bytes;
  const std::uint64_t row_bytes = row_bytes_of(plan, segment);
  const std::byte* from = source_rows + (segment.source_row + item.row_begin) * row_bytes;
  if (to.row_map == plan::kNone) {
    streamed_copy(matrix + (segment.row_begin + item.row_begin) * row_bytes, from, item.rows * row_bytes);
    return;
  }
  for (std::uint64_t r = 0; r < item.rows; ++r, from += row_bytes) {
    std::memcpy(matrix + plan::stored_row(plan, segment, item.row_begin + r) * row_bytes, from, row_bytes);
  }
}

void round_bf16_item(const plan::Plan& plan, const plan::Segment& segment, const WorkItem& item,
                     const std::byte* source_rows, std::span<std::byte> destinations) {
  const plan::Destination& to = plan.destinations[segment.destination];
  std::byte* const matrix = destinations.data() + to.offset + segment.matrix * to.matrix_bytes;
  const std::uint64_t first = item.row_begin * segment.cols;
  for (std::uint64_t i = first; i < first + item.rows * segment.cols; ++i) {
    float value;
    std::memcpy(&value, source_rows + (segment.source_row * segment.cols + i) * 4, 4);
    const float rounded = quant::bf16_value(quant::bf16_from_float(value));
    std::memcpy(matrix + (segment.row_begin * segment.cols + i) * 4, &rounded, 4);
  }
}

void zero_item(const plan::Plan& plan, const plan::Segment& segment, const WorkItem& item,
               std::span<std::byte> destinations) {
  const plan::Destination& scale = plan.destinations[segment.destination];
  std::byte* const matrix = destinations.data() + scale.offset + segment.matrix * scale.matrix_bytes;
  const std::vector<std::uint8_t> zeros(segment.cols);
  for (std::uint64_t r = item.row_begin; r < item.row_begin + item.rows; ++r) {
    store_scales(scale, matrix, segment.row_begin + r, zeros.data(), segment.cols);
  }
}

void execute_item(const plan::Plan& plan, const WorkItem& item, std::span<const std::byte> sources,
                  std::span<std::byte> destinations) {
  const plan::Segment& segment = plan.segments[item.segment];
  if (segment.op == plan::Op::zero) return zero_item(plan, segment, item, destinations);
  const std::byte* const rows = sources.data() + plan.sources[segment.source].offset;
  switch (segment.op) {
    case plan::Op::copy:
      return copy_item(plan, segment, item, rows, destinations);
    case plan::Op::quantize:
      return quantize_item(plan, segment, item, rows, destinations);
    case plan::Op::round_bf16:
      return round_bf16_item(plan, segment, item, rows, destinations);
    case plan::Op::zero:
      return;
  }
}

}  // namespace

std::vector<WorkItem> cut_into_items(const plan::Plan& plan) {
  std::vector<WorkItem> items;
  for (std::uint32_t s = 0; s < plan.segments.size(); ++s) {
    const plan::Segment& segment = plan.segments[s];
    const std::uint64_t rows =
        std::max<std::uint64_t>(1, kItemBytes / std::max<std::uint64_t>(1, row_bytes_of(plan, segment)));
    for (std::uint64_t begin = 0; begin < segment.rows; begin += rows) {
      items.push_back({s, begin, std::min(rows, segment.rows - begin)});
    }
  }
  return items;
}

void execute_items(const plan::Plan& plan, std::span<const WorkItem> items,
                   std::span<const std::byte> sources, std::span<std::byte> destinations, ThreadPool& pool) {
  pool.for_range(items.size(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) execute_item(plan, items[i], sources, destinations);
  });
}

void quantize_rows(const QuantizeRows& what, const quant::Options& options) {
  const std::uint64_t count = what.rows * what.cols;
  const bool finite =
      quant::quantize_blocks({reinterpret_cast<const std::uint16_t*>(what.from), count}, options,
                             {reinterpret_cast<std::uint8_t*>(what.values), count},
                             {reinterpret_cast<std::uint8_t*>(what.scales), count / quant::kBlock});
  if (!finite && options.non_finite == quant::NonFinite::refuse) {
    refuse_non_finite(*what.tensor, what.from, what.rows, what.cols, what.first_row);
  }
}

void parallel_copy(std::byte* to, const std::byte* from, std::uint64_t bytes, ThreadPool& pool) {
  const std::uint64_t pieces = (bytes + kItemBytes - 1) / kItemBytes;
  pool.for_range(pieces, 1, [&](std::size_t begin, std::size_t end) {
    const std::uint64_t first = begin * kItemBytes;
    streamed_copy(to + first, from + first, std::min(bytes, end * kItemBytes) - first);
  });
}

}  // namespace refit::run
