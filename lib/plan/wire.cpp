// Cutting a plan into keys and filling the keys into buckets.
#include "refit/plan/wire.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "refit/base/bytes.hpp"
#include "refit/base/error.hpp"
#include "refit/quant/mxfp8.hpp"

namespace refit::plan {
namespace {

/// Rows of a segment that travel together.
struct Piece {
  std::uint64_t begin = 0, rows = 0;
  bool whole = true;  ///< the segment's only piece
};

class Filler {
 public:
  Filler(const Plan& plan, bool prequantize, std::uint64_t bucket_bytes)
      : plan_(plan), bucket_bytes_(bucket_bytes) {
    wire_.prequantized = prequantize;
    wire_.entries.reserve(plan.segments.size() * (prequantize ? 2 : 1));
    wire_.offsets.reserve(wire_.entries.capacity());
  }

  Wire fill() {
    for (std::uint32_t i = 0; i < plan_.segments.size(); ++i) {
      if (plan_.segments[i].op != Op::zero) add_segment(i);
    }
    check_unique_names();
    return std::move(wire_);
  }

 private:
  [[nodiscard]] bool quantized(const Segment& segment) const noexcept {
    return wire_.prequantized && segment.op == Op::quantize;
  }

  /// What the segment's values are while they travel. A rounded router bias stays FP32: the rounding happens
  /// at the sender.
  [[nodiscard]] DType dtype_of(const Segment& segment) const noexcept {
    return quantized(segment) ? DType::f8_e4m3 : plan_.sources[segment.source].spec.dtype;
  }

  void add_segment(std::uint32_t index) {
    const Segment& segment = plan_.segments[index];
    const std::uint64_t row_bytes = segment.cols * size_of(dtype_of(segment));
    if (row_bytes > bucket_bytes_ && segment.rows > 0) {
      fail_input(fmt::format("A row of tensor {} has {} bytes and does not fit a bucket of {} bytes.",
                             segment.wire_name, row_bytes, bucket_bytes_));
    }
    if (row_bytes == 0 || segment.rows <= bucket_bytes_ / row_bytes) {
      add_piece(index, {.begin = 0, .rows = segment.rows, .whole = true});
      return;
    }
    const std::uint64_t step = bucket_bytes_ / row_bytes;
    for (std::uint64_t begin = 0; begin < segment.rows; begin += step) {
      add_piece(index, {.begin = begin, .rows = std::min(step, segment.rows - begin), .whole = false});
    }
  }

  void add_piece(std::uint32_t index, const Piece& piece) {
    const Segment& segment = plan_.segments[index];
    WireEntry values = entry_of(index, piece);
    values.dtype = dtype_of(segment);
    values.shape = shape_of(segment, piece, segment.cols);
    values.bytes = piece.rows * segment.cols * size_of(values.dtype);
    values.name = key_of(segment, piece, "");
    push(std::move(values));
    if (!quantized(segment)) return;
    const std::uint64_t scale_cols = segment.cols / quant::kBlock;
    WireEntry scales = entry_of(index, piece);
    scales.dtype = DType::u8;
    scales.shape = shape_of(segment, piece, scale_cols);
    scales.bytes = piece.rows * scale_cols;
    scales.name = key_of(segment, piece, "_scale_from_checkpoint");
    scales.scale = true;
    push(std::move(scales));
  }

  static WireEntry entry_of(std::uint32_t index, const Piece& piece) {
    WireEntry entry;
    entry.segment = index;
    entry.row_begin = piece.begin;
    entry.rows = piece.rows;
    return entry;
  }

  static std::string key_of(const Segment& segment, const Piece& piece, std::string_view suffix) {
    std::string key;
    key.reserve(segment.wire_name.size() + suffix.size());
    key.append(segment.wire_name).append(suffix);
    if (!piece.whole) key += fmt::format("#rows={}:{}", piece.begin, piece.begin + piece.rows);
    return key;
  }

  /// The source's own shape where all of it travels, else the matrix or the vector that does.
  [[nodiscard]] Shape shape_of(const Segment& segment, const Piece& piece, std::uint64_t cols) const {
    const TensorSpec& source = plan_.sources[segment.source].spec;
    if (piece.whole && cols == segment.cols && segment.rows == source.rows()) return source.shape;
    if (source.shape.size() < 2) return {piece.rows};
    return {piece.rows, cols};
  }

  void push(WireEntry entry) {
    std::uint64_t offset = align_up(used_bytes_, kWireAlignment);
    if (wire_.buckets.empty() || offset > bucket_bytes_ || entry.bytes > bucket_bytes_ - offset) {
      offset = 0;
      wire_.buckets.push_back({.first_entry = static_cast<std::uint32_t>(wire_.entries.size())});
    }
    used_bytes_ = offset + entry.bytes;
    Bucket& bucket = wire_.buckets.back();
    bucket.entries += 1;
    bucket.used_bytes = used_bytes_;
    wire_.largest_bucket = std::max(wire_.largest_bucket, used_bytes_);
    wire_.bytes += entry.bytes;
    wire_.offsets.push_back(offset);
    wire_.entries.push_back(std::move(entry));
  }

  void check_unique_names() const {
    std::unordered_set<std::string_view> names;
    names.reserve(wire_.entries.size());
    for (const WireEntry& entry : wire_.entries) {
      if (!names.insert(entry.name).second) {
        fail_input(fmt::format(
            "Two entries would travel under the key {}: a tensor has the name of another's scales "
            "or of a piece of it.",
            entry.name));
      }
    }
  }

  const Plan& plan_;
  std::uint64_t bucket_bytes_;
  std::uint64_t used_bytes_ = 0;  // of the last bucket
  Wire wire_;
};

}  // namespace

Wire make_wire(const Plan& plan, bool prequantize, std::uint64_t bucket_bytes) {
  return Filler(plan, prequantize, bucket_bytes).fill();
}

}  // namespace refit::plan
