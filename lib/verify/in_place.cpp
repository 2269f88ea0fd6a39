// The engine's bytes against the references: read back row by row (quantizer) and as whole pieces (layout).
//
//   sources --> canonical rows --+--> read back at the plan's stored rows and scale offsets: quantizer
//               of a piece       +--> per-expert reference layout --> the engine's bytes: layout
#include <algorithm>
#include <utility>

#include "refit/layout/moe_shuffle.hpp"
#include "refit/layout/scale_128x4.hpp"
#include "verify/pieces.hpp"

namespace refit::verify {
namespace {

using Octets = std::vector<std::uint8_t>;
/// Values and scales of some rows, canonical or as the engine stores them.
using Matrix = layout::ShuffledExpert;

Bytes bytes_of(const Octets& octets) {
  return std::as_bytes(std::span(octets));
}

/// Rows of a piece, and bytes of a canonical one.
struct Widths {
  std::uint64_t rows = 0, value_bytes = 0, scale_bytes = 0;
};

/// A canonical matrix whose bytes tell of what kind their row is.
Matrix spread(const Octets& kinds, const Widths& widths) {
  Matrix matrix;
  for (const std::uint8_t kind : kinds) {
    matrix.weight.insert(matrix.weight.end(), widths.value_bytes, kind);
    matrix.scales.insert(matrix.scales.end(), widths.scale_bytes, kind);
  }
  return matrix;
}

/// The layout module's references and nothing else.
Matrix engine_layout(const plan::Plan& plan, const plan::Destination& weight, const Widths& widths,
                     Matrix canonical) {
  if (weight.row_map != plan::kNone) {
    return weight.gated
               ? layout::shuffle_w13_expert_reference(canonical.weight, canonical.scales, widths.rows,
                                                      widths.value_bytes, widths.scale_bytes, true)
               : layout::shuffle_w2_expert_reference(canonical.weight, canonical.scales, widths.rows,
                                                     widths.value_bytes, widths.scale_bytes);
  }
  if (plan.destinations[weight.scale].scale_layout == plan::ScaleLayout::tiled_128x4) {
    canonical.scales = layout::tile_scales_128x4_reference(canonical.scales, widths.rows, widths.scale_bytes);
  }
  return canonical;
}

class Judge {
 public:
  /// A null tally is not asked for.
  Judge(const plan::Plan& plan, Bytes sources, Bytes destinations, std::vector<bool> masked, Tally* quantizer,
        Tally* layout)
      : plan_(plan),
        sources_(sources),
        destinations_(destinations),
        masked_(std::move(masked)),
        quantizer_(quantizer),
        layout_(layout) {
    require_sources(plan, sources);
    require_destinations(plan, destinations);
    require_marks(plan, masked_);
  }

  void judge(const Piece& piece) const {
    const plan::Destination& weight = plan_.destinations[piece.fed->destination];
    if (weight.scale == plan::kNone) {
      judge_copies(piece);
    } else {
      judge_matrix(piece, weight);
    }
  }

 private:
  [[nodiscard]] bool masked(std::uint32_t segment) const { return !masked_.empty() && masked_[segment]; }

  [[nodiscard]] Bytes engine(std::uint32_t destination, std::uint64_t at, std::uint64_t size) const {
    return destination_bytes(plan_, destination, at, size, destinations_);
  }

  /// Rows that are stored as they are, where they are: both checks are one comparison, without a copy.
  void judge_copies(const Piece& piece) const {
    for (const std::uint32_t i : piece.fed->segments) {
      if (masked(i)) continue;
      const plan::Segment& segment = plan_.segments[i];
      const Part part = part_of(segment, piece);
      const Bytes expected = source_rows(plan_, segment, part.rows, sources_);
      const std::uint64_t at = segment.matrix * plan_.destinations[segment.destination].matrix_bytes +
                               (piece.rows.begin + part.at) * value_row_bytes(plan_, segment);
      const Bytes got = engine(segment.destination, at, expected.size());
      const std::string_view what = difference_of(segment, true);
      if (quantizer_ != nullptr) quantizer_->compare(segment.destination, at, expected, got, what);
      if (layout_ != nullptr) layout_->compare(segment.destination, at, expected, got, what);
    }
  }

  /// Rows that were quantized: values and scales of a weight together.
  void judge_matrix(const Piece& piece, const plan::Destination& weight) const {
    const plan::Segment& any = plan_.segments[piece.fed->segments.front()];
    const Widths widths{.rows = piece.rows.count,
                        .value_bytes = value_row_bytes(plan_, any),
                        .scale_bytes = scale_row_bytes(any)};
    Matrix canonical{.weight = Octets(widths.rows * widths.value_bytes),
                     .scales = Octets(widths.rows * widths.scale_bytes)};
    Octets unjudged(widths.rows, 1);  // rows that no segment feeds, or a masked one
    for (const std::uint32_t i : piece.fed->segments) {
      if (masked(i)) continue;
      const Part part = part_of(plan_.segments[i], piece);
      canonical_rows(plan_.segments[i], part, widths, canonical);
      std::fill_n(unjudged.begin() + static_cast<std::ptrdiff_t>(part.at), part.rows.count, std::uint8_t{0});
    }
    if (layout_ != nullptr) judge_layout(piece, weight, widths, std::move(canonical), unjudged);
  }

  /// Puts the reference of one segment's part into `canonical` and compares the engine's bytes with it.
  void canonical_rows(const plan::Segment& segment, const Part& part, const Widths& widths,
                      Matrix& canonical) const {
    const auto rows_of = [&part](Octets& octets, std::uint64_t row_bytes) {
      return std::as_writable_bytes(
          std::span(octets).subspan(part.at * row_bytes, part.rows.count * row_bytes));
    };
    const auto values = rows_of(canonical.weight, widths.value_bytes);
    const auto scales = rows_of(canonical.scales, widths.scale_bytes);
    quantize_rows(plan_, segment, part.rows, sources_, values, scales);
    if (quantizer_ == nullptr) return;
    for (std::uint64_t r = 0; r < part.rows.count; ++r) {
      const std::uint64_t stored = plan::stored_row(plan_, segment, part.rows.begin + r);
      read_values_back(segment, stored, values.subspan(r * widths.value_bytes, widths.value_bytes));
      read_scales_back(segment, stored, scales.subspan(r * widths.scale_bytes, widths.scale_bytes));
    }
  }

  void read_values_back(const plan::Segment& segment, std::uint64_t stored, Bytes expected) const {
    const std::uint64_t at =
        segment.matrix * plan_.destinations[segment.destination].matrix_bytes + stored * expected.size();
    quantizer_->compare(segment.destination, at, expected, engine(segment.destination, at, expected.size()),
                        difference_of(segment, true));
  }

  void read_scales_back(const plan::Segment& segment, std::uint64_t stored, Bytes expected) const {
    const std::uint32_t number = plan_.destinations[segment.destination].scale;
    const plan::Destination& scale = plan_.destinations[number];
    const std::uint64_t matrix_at = segment.matrix * scale.matrix_bytes;
    const Bytes matrix = engine(number, matrix_at, scale.matrix_bytes);
    std::uint64_t equal = 0;
    for (std::uint64_t column = 0; column < expected.size(); ++column) {
      const std::uint64_t at = plan::scale_offset(scale, stored, column);
      if (matrix[at] == expected[column]) {
        ++equal;
      } else {
        quantizer_->compare(number, matrix_at + at, expected.subspan(column, 1), matrix.subspan(at, 1),
                            difference_of(segment, true));
      }
    }
    quantizer_->compared(equal);
  }

  void judge_layout(const Piece& piece, const plan::Destination& weight, const Widths& widths,
                    Matrix canonical, const Octets& unjudged) const {
    const Matrix expected = engine_layout(plan_, weight, widths, std::move(canonical));
    Matrix ignored;
    if (std::ranges::find(unjudged, 1) != unjudged.end()) {
      ignored = engine_layout(plan_, weight, widths, spread(unjudged, widths));
    }
    const std::uint32_t number = piece.fed->destination;
    const std::uint64_t at = piece.fed->matrix * weight.matrix_bytes + piece.rows.begin * widths.value_bytes;
    layout_->compare(number, at, bytes_of(expected.weight), engine(number, at, expected.weight.size()),
                     kOtherLayout, bytes_of(ignored.weight));
    judge_scale_layout(piece, weight, widths, expected.scales, ignored.scales);
  }

  void judge_scale_layout(const Piece& piece, const plan::Destination& weight, const Widths& widths,
                          const Octets& expected, Octets ignored) const {
    const plan::Destination& scale = plan_.destinations[weight.scale];
    const bool tiled = scale.scale_layout == plan::ScaleLayout::tiled_128x4;
    const std::uint64_t at = piece.fed->matrix * scale.matrix_bytes +
                             (tiled ? layout::scale_128x4_bytes(piece.rows.begin, widths.scale_bytes)
                                    : piece.rows.begin * widths.scale_bytes);
    const Bytes got = engine(weight.scale, at, expected.size());
    if (std::ranges::equal(bytes_of(expected), got)) {
      layout_->compare(weight.scale, at, bytes_of(expected), got, kOtherLayout, bytes_of(ignored));
      return;
    }
    // Which bytes belong to no row: padding is another fault than a scale in the wrong place.
    const Octets rows = engine_layout(plan_, weight, widths, spread(Octets(widths.rows, 1), widths)).scales;
    ignored.resize(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i] == 0) ignored[i] = 1;
    }
    layout_->compare(weight.scale, at, bytes_of(expected), got, kOtherLayout, bytes_of(ignored));
    layout_->compare(weight.scale, at, bytes_of(expected), got, kPaddingNotZero, bytes_of(rows));
  }

  const plan::Plan& plan_;
  Bytes sources_, destinations_;
  std::vector<bool> masked_;
  Tally* quantizer_;
  Tally* layout_;
};

void judge_all(const plan::Plan& plan, const Judge& judge, ThreadPool& pool) {
  const std::vector<FedMatrix> fed = fed_matrices(plan);
  const std::vector<Piece> pieces = pieces_of(plan, fed);
  pool.for_range(pieces.size(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) judge.judge(pieces[i]);
  });
}

Result engine_result(const plan::Plan& plan, const Tally& tally) {
  return tally.result([&](std::size_t number) {
    const TensorSpec& spec = plan.destinations[number].spec;
    return Tally::Tensor{spec.name, spec.dtype};
  });
}

}  // namespace

Result check_quantizer_in_place(const plan::Plan& plan, Bytes sources, Bytes destinations, ThreadPool& pool) {
  Tally quantizer;
  judge_all(plan, Judge(plan, sources, destinations, {}, &quantizer, nullptr), pool);
  return engine_result(plan, quantizer);
}

Result check_layout(const plan::Plan& plan, Bytes sources, Bytes destinations,
                    const std::vector<bool>& masked, ThreadPool& pool) {
  Tally layout;
  judge_all(plan, Judge(plan, sources, destinations, masked, nullptr, &layout), pool);
  return engine_result(plan, layout);
}

InPlace check_in_place(const plan::Plan& plan, Bytes sources, Bytes destinations, ThreadPool& pool,
                       const std::vector<bool>& masked) {
  Tally quantizer, layout;
  judge_all(plan, Judge(plan, sources, destinations, masked, &quantizer, &layout), pool);
  return {.quantizer = engine_result(plan, quantizer), .layout = engine_result(plan, layout)};
}

}  // namespace refit::verify
