// The references move bytes, not indices: an index travels as four bytes, 1 for the first, 0 for padding.
//
//   rows:   four bytes are a row of the weight, so that one run moves whole indices
//   scales: a byte is an element, so that one run moves one byte of every index
#include "cuda/reference_tables.hpp"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "refit/base/error.hpp"
#include "refit/layout/moe_shuffle.hpp"
#include "refit/layout/scale_128x4.hpp"
#include "refit/quant/mxfp8.hpp"

namespace refit::cuda {
namespace {

using Octets = std::vector<std::uint8_t>;
constexpr std::uint64_t kIndexBytes = 4;

std::uint8_t byte_of_index(std::uint64_t index, std::uint64_t byte) {
  return static_cast<std::uint8_t>((index + 1) >> 8 * byte);
}

/// Indices of `rows` rows, each a row of four bytes.
Octets indices_of_rows(std::uint64_t rows) {
  Octets octets(rows * kIndexBytes);
  for (std::uint64_t i = 0; i < octets.size(); ++i)
    octets[i] = byte_of_index(i / kIndexBytes, i % kIndexBytes);
  return octets;
}

/// One byte of the index of every element.
Octets plane_of_indices(std::uint64_t count, std::uint64_t byte) {
  Octets octets(count);
  for (std::uint64_t i = 0; i < count; ++i) octets[i] = byte_of_index(i, byte);
  return octets;
}

struct MatrixShape {
  std::uint64_t rows, scale_cols;
  bool gated, shuffled, tiled;
};

/// As lib/verify does it for one matrix.
layout::ShuffledExpert engine_layout(const MatrixShape& shape, const Octets& weight, Octets scales) {
  if (shape.shuffled && shape.gated) {
    return layout::shuffle_w13_expert_reference(weight, scales, shape.rows, kIndexBytes, shape.scale_cols,
                                                true);
  }
  if (shape.shuffled) {
    return layout::shuffle_w2_expert_reference(weight, scales, shape.rows, kIndexBytes, shape.scale_cols);
  }
  if (shape.tiled) scales = layout::tile_scales_128x4_reference(scales, shape.rows, shape.scale_cols);
  return {.weight = weight, .scales = std::move(scales)};
}

/// What a matrix of indices became: rows, and scales with 0 for padding.
struct Moved {
  std::vector<std::uint32_t> rows, scales;
};
Moved move_indices(const MatrixShape& shape) {
  Moved moved;
  const Octets weight = indices_of_rows(shape.rows);
  for (std::uint64_t byte = 0; byte < kIndexBytes; ++byte) {
    const layout::ShuffledExpert stored =
        engine_layout(shape, weight, plane_of_indices(shape.rows * shape.scale_cols, byte));
    moved.scales.resize(stored.scales.size());
    for (std::size_t i = 0; i < stored.scales.size(); ++i) {
      moved.scales[i] |= std::uint32_t{stored.scales[i]} << 8 * byte;
    }
    if (byte != 0) continue;
    moved.rows.resize(shape.rows);
    for (std::size_t i = 0; i < stored.weight.size(); ++i) {
      moved.rows[i / kIndexBytes] |= std::uint32_t{stored.weight[i]} << 8 * (i % kIndexBytes);
    }
  }
  return moved;
}

/// Where each index but 0, which is padding, went.
struct Places {
  std::vector<std::uint32_t> of, padding;
};
Places places_of(const std::vector<std::uint32_t>& indices, std::uint64_t count) {
  Places places;
  places.of.resize(count);
  for (std::uint32_t place = 0; place < indices.size(); ++place) {
    if (indices[place] == 0) {
      places.padding.push_back(place);
    } else {
      places.of[indices[place] - 1] = place;
    }
  }
  return places;
}

}  // namespace

DeviceBuffer ReferenceTables::upload(const std::vector<std::uint32_t>& table) {
  const auto bytes = std::as_bytes(std::span(table));
  DeviceBuffer buffer(session_, bytes.size(), "a table for the checks");
  uploads_.send_to(buffer.data(), bytes);
  return buffer;
}

const ReferenceTable& ReferenceTables::of(const plan::Plan& plan, const plan::Destination& weight) {
  const plan::Destination& scale = plan.destinations[weight.scale];
  const Key key(weight.matrix_rows, weight.spec.cols() / quant::kBlock, weight.gated,
                weight.row_map != plan::kNone, scale.scale_layout == plan::ScaleLayout::tiled_128x4);
  auto known = tables_.find(key);
  if (known == tables_.end()) known = tables_.emplace(key, make(key, scale)).first;
  return known->second;
}

ReferenceTable ReferenceTables::make(const Key& key, const plan::Destination& scale) {
  const auto [rows, scale_cols, gated, shuffled, tiled] = key;
  if (layout::scale_128x4_bytes(rows, scale_cols) > std::numeric_limits<std::uint32_t>::max()) {
    fail_input(fmt::format("{} has {} rows of {} scales, and the checks on a GPU number up to 2^32 of them.",
                           scale.spec.name, rows, scale_cols));
  }
  const Moved moved = move_indices({rows, scale_cols, gated, shuffled, tiled});
  const std::vector<std::uint32_t> stored = places_of(moved.rows, rows).of;
  const Places places = places_of(moved.scales, rows * scale_cols);

  ReferenceTable table;
  table.scale_bytes = moved.scales.size();
  table.padding = places.padding.size();
  table.closed = true;
  for (std::uint64_t i = 0; i < places.of.size(); ++i) {
    if (places.of[i] != plan::scale_offset(scale, stored[i / scale_cols], i % scale_cols))
      table.closed = false;
  }
  table.device_places = upload(places.of);
  table.device_padding = upload(places.padding);
  if (shuffled) {
    table.device_rows = upload(stored);
    table.stored_rows = stored;
  }
  return table;
}

}  // namespace refit::cuda
