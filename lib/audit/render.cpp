// Source rows to the bytes of an engine's tensor: cut for the rank, quantized, ordered, laid out.
#include "audit/render.hpp"

#include <algorithm>
#include <cstring>

#include "quant/casts.hpp"
#include "refit/base/bytes.hpp"
#include "refit/layout/moe_shuffle.hpp"
#include "refit/layout/scale_128x4.hpp"
#include "refit/model/split.hpp"

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

/// BF16, F16 or F32 to BF16, to nearest even, or to F32, which is exact.
Octets cast(const Octets& values, DType from, DType to) {
  const std::size_t count = values.size() / size_of(from);
  const auto* const in = reinterpret_cast<const std::byte*>(values.data());
  Octets out(count * size_of(to));
  if (to == DType::bf16) {
    std::vector<std::uint16_t> words(count);
    quant::to_bf16(from, in, count, words.data());
    if (count > 0) std::memcpy(out.data(), words.data(), out.size());
    return out;
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, in + i * sizeof bits, sizeof bits);
    const float value = from == DType::f16 ? quant::f16_value(bits) : quant::bf16_value(bits);
    std::memcpy(out.data() + i * sizeof value, &value, sizeof value);
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
    way.vocab_rows = model::padded_rows(part->rows, model::kEngineVocabularyMultiple) / request.tp_size;
  }
  return way;
}

DType Renderer::dtype(const Target& target, const Way& way) {
  if (target.role == Role::scales) return DType::u8;
  return way.cast_to.value_or(target.parameter->dtype);
}

DType Renderer::cast_to(const Target& target) const {
  const Parameter& parameter = *target.parameter;
  if (parameter.quantized || parameter.matrices.empty()) return parameter.dtype;
  const DType first = current_[parameter.matrices[0][0].source].cast_to;
  const bool alike =
      std::all_of(parameter.matrices.begin(), parameter.matrices.end(), [&](const auto& parts) {
        return std::all_of(parts.begin(), parts.end(),
                           [&](const Part& part) { return current_[part.source].cast_to == first; });
      });
  return alike ? first : parameter.dtype;
}

Renderer::Carried Renderer::carried(const Target& target) const {
  std::size_t parts = 0, mxfp8 = 0;
  for (const auto& matrix : target.parameter->matrices) {
    for (const Part& part : matrix) {
      ++parts;
      mxfp8 += current_[part.source].mxfp8;
    }
  }
  return mxfp8 == 0 ? Carried::none : mxfp8 == parts ? Carried::all : Carried::some;
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
  const std::uint64_t padded =
      model::padded_rows(part.rows, model::kEngineVocabularyMultiple) / expectation_.request.tp_size;
  const std::uint64_t have =
      way.vocab_rows > padded ? std::max(part.rows, current_[part.source].rows) : part.rows;
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
  const std::uint64_t width = size_of(dtype(target, way));
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

/// Calls visit(row of the range, weight, element) with where the row's elements begin in the weight; rows of
/// zeros are left out.
template <typename Visit>
void Renderer::for_each_row(const Target& target, const Way& way, const Range& range,
                            const Visit& visit) const {
  const Way::Expert expert =
      way.experts.empty()
          ? Way::Expert{first_matrix(target, way) + static_cast<std::uint32_t>(range.matrix), way.previous}
          : way.experts[range.matrix];
  const Weights& weights = expert.previous && previous_ != nullptr ? *previous_ : current_;
  const std::vector<Piece> from = pieces(target, way, expert.number);
  const std::vector<std::uint32_t> order = source_rows(
      way.row_order, static_cast<std::uint32_t>(sizes(target, way).rows), target.parameter->gated);
  std::size_t piece = 0;
  std::uint64_t piece_begin = 0;
  for (std::uint64_t r = 0; r < range.rows; ++r) {
    const std::uint64_t row = order.empty() ? range.row + r : order[range.row + r];
    if (row < piece_begin) piece = piece_begin = 0;
    while (row - piece_begin >= from[piece].rows) piece_begin += from[piece++].rows;
    const Piece& p = from[piece];
    if (p.source == plan::kNone) continue;
    const std::uint64_t stride = expectation_.plan.sources[p.source].spec.cols();
    visit(r, weights[p.source], (p.row + row - piece_begin) * stride + p.col);
  }
}

/// Rows of a parameter that is not quantized.
Octets Renderer::copied(const Target& target, const Way& way, const Range& range) const {
  const DType from = target.parameter->dtype;
  const std::uint64_t width = size_of(from), row_bytes = sizes(target, way).cols * width;
  Octets raw(range.rows * row_bytes);
  for_each_row(target, way, range, [&](std::uint64_t row, const Weight& weight, std::uint64_t element) {
    std::memcpy(raw.data() + row * row_bytes, weight.values.data() + element * width, row_bytes);
  });
  if (way.through_bf16) round_through_bf16(raw);
  return way.cast_to.value_or(from) == from ? raw : cast(raw, from, *way.cast_to);
}

/// Rows through BF16 and the quantizer; what is MXFP8 already stays as it is.
Renderer::Quantized Renderer::quantized(const Target& target, const Way& way, const Range& range) const {
  const std::uint64_t cols = sizes(target, way).cols, blocks = cols / quant::kBlock;
  std::vector<std::uint16_t> words(range.rows * cols);
  Quantized out{.values = Octets(words.size()), .scales = Octets(range.rows * blocks)};
  for_each_row(target, way, range, [&](std::uint64_t row, const Weight& weight, std::uint64_t element) {
    if (weight.mxfp8) return;
    quant::to_bf16(weight.dtype, weight.values.data() + element * size_of(weight.dtype), cols,
                   words.data() + row * cols);
  });
  quant::quantize_blocks(words, way.quant, out.values, out.scales);
  for_each_row(target, way, range, [&](std::uint64_t row, const Weight& weight, std::uint64_t element) {
    if (!weight.mxfp8) return;
    std::uint8_t* const scales = out.scales.data() + row * blocks;
    std::memcpy(out.values.data() + row * cols, weight.values.data() + element, cols);
    std::memcpy(scales, weight.scales.data() + element / quant::kBlock, blocks);
    if (way.byte_0_replaced) std::replace(scales, scales + blocks, std::uint8_t{0}, std::uint8_t{1});
  });
  return out;
}

Octets Renderer::render(const Target& target, const Way& way, const Range& range) const {
  if (way.constant) return Octets(range.bytes, *way.constant);
  const std::uint64_t cols = sizes(target, way).cols;
  Octets values;
  if (target.parameter->quantized) {
    Quantized made = quantized(target, way, range);
    if (target.role == Role::scales) {
      return laid_out(std::move(made.scales), range.rows, cols / quant::kBlock, way.form);
    }
    values = std::move(made.values);
  } else {
    values = copied(target, way, range);
  }
  return way.transposed ? transposed(values, range.rows, cols, size_of(dtype(target, way))) : values;
}

}  // namespace refit::audit
