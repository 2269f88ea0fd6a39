// Source rows to the bytes of an engine's tensor: cut for the rank, quantized, ordered, laid out.
#include "audit/render.hpp"

#include <algorithm>
#include <cstring>

#include "refit/base/bytes.hpp"
#include "refit/layout/moe_shuffle.hpp"
#include "refit/layout/scale_128x4.hpp"

namespace refit::audit {
namespace {

using Octets = std::vector<std::uint8_t>;

/// A whole matrix is turned at once, so that it may not be too large.
constexpr std::uint64_t kLargestTransposed = 256u << 20;

std::vector<std::uint32_t> composed(const std::vector<std::uint32_t>& outer,
                                    const std::vector<std::uint32_t>& inner) {
  std::vector<std::uint32_t> rows(outer.size());
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = inner[outer[i]];
  return rows;
}

/// [w1; w3] to rows that alternate, w3 first: what precedes the shuffle.
std::vector<std::uint32_t> interleaved(std::uint32_t rows) {
  std::vector<std::uint32_t> swapped(rows);
  for (std::uint32_t i = 0; i < rows; ++i) swapped[i] = (i + rows / 2) % rows;
  return composed(layout::gated_interleave_rows(rows), swapped);
}

/// Canonical row of each stored row; empty for rows as they are.
std::vector<std::uint32_t> source_rows(RowOrder order, std::uint32_t rows, bool gated) {
  switch (order) {
    case RowOrder::canonical:
      return {};
    case RowOrder::engine:
      return layout::trtllm_w13_rows(rows, gated);
    case RowOrder::engine_twice: {
      const auto once = layout::trtllm_w13_rows(rows, gated);
      return composed(once, once);
    }
    case RowOrder::shuffle_only:
      return layout::shuffle_rows(rows);
    case RowOrder::interleave_only:
      return interleaved(rows);
  }
  return {};
}

void round_through_bf16(Octets& f32) {
  for (std::size_t i = 0; i < f32.size(); i += 4) {
    float value;
    std::memcpy(&value, f32.data() + i, 4);
    value = quant::bf16_value(quant::bf16_from_float(value));
    std::memcpy(f32.data() + i, &value, 4);
  }
}

Octets stored_as_bf16(const Octets& f32) {
  Octets out(f32.size() / 2);
  for (std::size_t i = 0; i < out.size() / 2; ++i) {
    float value;
    std::memcpy(&value, f32.data() + 4 * i, 4);
    const std::uint16_t bits = quant::bf16_from_float(value);
    std::memcpy(out.data() + 2 * i, &bits, 2);
  }
  return out;
}

Octets transposed(const Octets& in, std::uint64_t rows, std::uint64_t cols, std::uint64_t width) {
  Octets out(in.size());
  for (std::uint64_t r = 0; r < rows; ++r) {
    for (std::uint64_t c = 0; c < cols; ++c) {
      std::memcpy(out.data() + (c * rows + r) * width, in.data() + (r * cols + c) * width, width);
    }
  }
  return out;
}

Octets laid_out(Octets scales, std::uint64_t rows, std::uint64_t cols, ScaleForm form) {
  if (form == ScaleForm::row_major) return scales;
  const std::uint64_t padded = layout::padded_scale_cols(cols);
  if (form == ScaleForm::tiled_128x4) {
    Octets out(layout::scale_128x4_bytes(rows, cols));
    layout::tile_scales_128x4(scales, rows, cols, out);
    return out;
  }
  Octets out(rows * padded);
  for (std::uint64_t r = 0; r < rows; ++r) {
    std::memcpy(out.data() + r * padded, scales.data() + r * cols, cols);
  }
  return out;
}

std::uint64_t scale_bytes(std::uint64_t rows, std::uint64_t cols, ScaleForm form) {
  switch (form) {
    case ScaleForm::row_major:
      return rows * cols;
    case ScaleForm::row_major_padded:
      return rows * layout::padded_scale_cols(cols);
    case ScaleForm::tiled_128x4:
      return layout::scale_128x4_bytes(rows, cols);
  }
  return 0;
}

}  // namespace

Way Renderer::right_way(const Target& target) const {
  const EngineRequest& request = expectation_.request;
  Way way{.quant = request.quant, .tp_rank = request.tp_rank, .ep_rank = request.ep_rank};
  way.quant.non_finite = quant::NonFinite::as_producer;
  way.row_order = target.shuffled ? RowOrder::engine : RowOrder::canonical;
  way.form = target.form;
  const Part* const part = target.parameter->matrices.empty() ? nullptr : &target.parameter->matrices[0][0];
  if (part != nullptr && part->split == Split::vocab) {
    way.vocab_rows = align_up(part->rows, kVocabPadding) / request.tp_size;
  }
  return way;
}

DType Renderer::dtype(const Target& target) {
  return target.role == Role::scales ? DType::u8 : target.parameter->dtype;
}

std::uint32_t Renderer::local_matrices(const Target& target) const {
  const auto all = static_cast<std::uint32_t>(target.parameter->matrices.size());
  return target.parameter->experts ? all / expectation_.request.ep_size : all;
}

std::uint32_t Renderer::first_matrix(const Target& target, const Way& way) const {
  return target.parameter->experts ? way.ep_rank * local_matrices(target) : 0;
}

Shape Renderer::shape(const Target& target, const Way& way) const {
  const Parameter& parameter = *target.parameter;
  const Sizes size = sizes(target, way);
  Shape shape = parameter.shape;
  if (parameter.experts) {
    shape = {local_matrices(target), size.rows, size.cols};
  } else if (!shape.empty() && !parameter.matrices.empty() && expectation_.request.tp_size > 1) {
    shape = shape.size() == 1 ? Shape{size.rows} : Shape{size.rows, size.cols};
  } else if (way.vocab_rows > 0) {
    shape[0] = size.rows;
  }
  if (target.role == Role::values) return shape;
  const std::uint64_t cols = size.cols / quant::kBlock;
  if (way.form != ScaleForm::tiled_128x4) {
    shape.back() = cols;
    return shape;
  }
  const std::uint64_t bytes = layout::scale_128x4_bytes(size.rows, cols);
  return parameter.experts ? Shape{local_matrices(target), bytes} : Shape{bytes};
}

Renderer::Piece Renderer::cut(const Part& part, const Way& way) const {
  const std::uint64_t ranks = expectation_.request.tp_size, rank = way.tp_rank;
  Piece piece{.source = part.source, .row = part.row, .rows = part.rows, .col = 0, .cols = part.cols};
  switch (part.split) {
    case Split::none:
    case Split::vocab:
      break;
    case Split::rows:
      piece.rows /= ranks;
      piece.row += rank * piece.rows;
      break;
    case Split::kv_heads: {
      const std::uint64_t heads = expectation_.request.model.dims.kv_heads;
      const std::uint64_t cuts = std::min(heads, ranks);
      piece.rows /= cuts;
      piece.row += rank / (ranks / cuts) * piece.rows;
      break;
    }
    case Split::cols:
      piece.cols /= ranks;
      piece.col = rank * piece.cols;
      break;
  }
  return piece;
}

/// Rows beyond the vocabulary are zero, unless the way asks for more rows than engines pad to and the source
/// has them.
std::vector<Renderer::Piece> Renderer::vocabulary(const Part& part, const Way& way) const {
  const std::uint64_t first = std::uint64_t{way.tp_rank} * way.vocab_rows;
  const std::uint64_t padded = align_up(part.rows, kVocabPadding) / expectation_.request.tp_size;
  const std::uint64_t have =
      way.vocab_rows > padded ? std::max(part.rows, current_.rows[part.source]) : part.rows;
  const std::uint64_t real = first < have ? std::min(way.vocab_rows, have - first) : 0;
  std::vector<Piece> pieces;
  if (real > 0) pieces.push_back({part.source, part.row + first, real, 0, part.cols});
  if (real < way.vocab_rows) pieces.push_back({plan::kNone, 0, way.vocab_rows - real, 0, part.cols});
  return pieces;
}

/// q, k and v rows of the first KV head, then of the second, ...
std::vector<Renderer::Piece> Renderer::head_groups(const std::vector<Piece>& parts) const {
  const EngineRequest& request = expectation_.request;
  const std::uint64_t groups = std::max<std::uint64_t>(1, request.model.dims.kv_heads / request.tp_size);
  std::vector<Piece> pieces;
  for (std::uint64_t group = 0; group < groups; ++group) {
    for (Piece piece : parts) {
      piece.rows /= groups;
      piece.row += group * piece.rows;
      pieces.push_back(piece);
    }
  }
  return pieces;
}

std::vector<Renderer::Piece> Renderer::pieces(const Target& target, const Way& way,
                                              std::uint32_t matrix) const {
  std::vector<Part> parts = target.parameter->matrices[matrix];
  if (way.other_source != plan::kNone) parts.front().source = way.other_source;
  if (way.vocab_rows > 0) return vocabulary(parts.front(), way);
  std::vector<Piece> pieces;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const Part& part = parts[way.part_order.empty() ? p : way.part_order[p]];
    pieces.push_back(way.cut == Cut::whole ? Piece{part.source, part.row, part.rows, 0, part.cols}
                                           : cut(part, way));
  }
  if (way.cut == Cut::head_groups) return head_groups(pieces);
  if (way.cut != Cut::whole) return pieces;
  std::uint64_t rows = 0;
  for (const Piece& piece : pieces) rows += piece.rows;
  const std::uint64_t mine = rows / expectation_.request.tp_size;
  const std::uint64_t begin = way.tp_rank * mine, end = begin + mine;
  std::vector<Piece> cut_whole;
  std::uint64_t at = 0;
  for (Piece piece : pieces) {
    const std::uint64_t from = std::max(begin, at), to = std::min(end, at + piece.rows);
    if (from < to)
      cut_whole.push_back({piece.source, piece.row + from - at, to - from, piece.col, piece.cols});
    at += piece.rows;
  }
  return cut_whole;
}

Renderer::Sizes Renderer::sizes(const Target& target, const Way& way) const {
  if (target.parameter->matrices.empty()) return {};
  Sizes sizes;
  for (const Piece& piece : pieces(target, way, 0)) {
    sizes.rows += piece.rows;
    sizes.cols = piece.cols;
  }
  return sizes;
}

std::vector<Range> Renderer::ranges(const Target& target, const Way& way) const {
  const Parameter& parameter = *target.parameter;
  const Sizes size = sizes(target, way);
  if (parameter.quantized && size.cols % quant::kBlock != 0) return {};
  if (way.row_order != RowOrder::canonical && (size.rows % 128 != 0)) return {};
  const std::uint64_t width = way.rounded == Rounded::stored_as_bf16 ? 2 : size_of(parameter.dtype);
  const std::uint64_t row_bytes = std::max<std::uint64_t>(1, size.cols * width);
  std::uint64_t most = std::max<std::uint64_t>(128, kPieceBytes / 2 / row_bytes / 128 * 128);
  if (way.transposed) {
    if (size.rows * row_bytes > kLargestTransposed || target.role == Role::scales) return {};
    most = std::max<std::uint64_t>(1, size.rows);
  }
  std::vector<Range> ranges;
  std::uint64_t begin = 0;
  for (std::uint32_t matrix = 0; matrix < local_matrices(target); ++matrix) {
    for (std::uint64_t row = 0; row < size.rows; row += most) {
      const std::uint64_t rows = std::min(most, size.rows - row);
      const std::uint64_t bytes = target.role == Role::values
                                      ? rows * size.cols * width
                                      : scale_bytes(rows, size.cols / quant::kBlock, way.form);
      ranges.push_back({matrix, row, rows, begin, bytes});
      begin += bytes;
    }
  }
  return ranges;
}

Octets Renderer::render(const Target& target, const Way& way, const Range& range) const {
  if (way.constant) return Octets(range.bytes, *way.constant);
  const Parameter& parameter = *target.parameter;
  const Way::Expert expert =
      way.experts.empty()
          ? Way::Expert{first_matrix(target, way) + static_cast<std::uint32_t>(range.matrix), way.previous}
          : way.experts[range.matrix];
  const Weights& weights = expert.previous && previous_ != nullptr ? *previous_ : current_;
  const std::vector<Piece> from = pieces(target, way, expert.number);
  const Sizes size = sizes(target, way);
  const std::vector<std::uint32_t> order =
      source_rows(way.row_order, static_cast<std::uint32_t>(size.rows), parameter.gated);

  const std::uint64_t width = parameter.quantized ? 2 : size_of(parameter.dtype);
  const std::uint64_t row_bytes = size.cols * width;
  Octets raw(range.rows * row_bytes);
  std::size_t piece = 0;
  std::uint64_t piece_begin = 0;
  for (std::uint64_t r = 0; r < range.rows; ++r) {
    const std::uint64_t row = order.empty() ? range.row + r : order[range.row + r];
    if (row < piece_begin) piece = piece_begin = 0;
    while (row - piece_begin >= from[piece].rows) piece_begin += from[piece++].rows;
    const Piece& p = from[piece];
    if (p.source == plan::kNone) continue;
    const std::uint64_t stride = expectation_.plan.sources[p.source].spec.cols() * width;
    std::memcpy(raw.data() + r * row_bytes,
                weights.sources[p.source].data() + (p.row + row - piece_begin) * stride + p.col * width,
                row_bytes);
  }

  if (way.rounded == Rounded::through_bf16) round_through_bf16(raw);
  if (way.rounded == Rounded::stored_as_bf16) raw = stored_as_bf16(raw);
  Octets scales;
  if (parameter.quantized) {
    Octets values(range.rows * size.cols);
    scales.resize(values.size() / quant::kBlock);
    quant::quantize_blocks({reinterpret_cast<const std::uint16_t*>(raw.data()), values.size()}, way.quant,
                           values, scales);
    raw = std::move(values);
  }
  if (target.role == Role::scales) {
    return laid_out(std::move(scales), range.rows, size.cols / quant::kBlock, way.form);
  }
  if (!way.transposed) return raw;
  return transposed(raw, range.rows, size.cols,
                    raw.size() / std::max<std::uint64_t>(1, range.rows * size.cols));
}

}  // namespace refit::audit
