// The bytes that rows of a segment have to become: the source's own, or the scalar quantizer's.
#include "verify/reference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "refit/base/error.hpp"
#include "refit/quant/mxfp8.hpp"

namespace refit::verify {
namespace {

constexpr std::uint64_t kPieceBytes = 1 << 20;
constexpr std::uint64_t kPieceRows = 128;

void require_arena(std::string_view side, std::uint64_t need, std::uint64_t have) {
  if (have < need) {
    fail_input(
        fmt::format("The plan needs a {} arena of {} bytes, and {} were given to verify.", side, need, have));
  }
}

}  // namespace

std::uint64_t value_row_bytes(const plan::Plan& plan, const plan::Segment& segment) {
  return segment.cols * size_of(plan.destinations[segment.destination].spec.dtype);
}

std::uint64_t scale_row_bytes(const plan::Segment& segment) {
  return segment.cols / quant::kBlock;
}

Bytes source_rows(const plan::Plan& plan, const plan::Segment& segment, Rows rows, Bytes sources) {
  const plan::Source& source = plan.sources[segment.source];
  const std::uint64_t row_bytes = segment.cols * size_of(source.spec.dtype);
  return sources.subspan(source.offset + (segment.source_row + rows.begin) * row_bytes,
                         rows.count * row_bytes);
}

void quantize_rows(const plan::Plan& plan, const plan::Segment& segment, Rows rows, Bytes sources,
                   std::span<std::byte> values, std::span<std::byte> scales) {
  const Bytes source = source_rows(plan, segment, rows, sources);
  std::array<std::uint16_t, quant::kBlock> block;
  std::array<std::uint8_t, quant::kBlock> quantized;
  for (std::size_t i = 0; i < scales.size(); ++i) {
    std::memcpy(block.data(), source.data() + i * sizeof(block), sizeof(block));
    scales[i] = std::byte{quant::quantize_block_reference(block, plan.quant, quantized)};
    std::memcpy(values.data() + i * sizeof(quantized), quantized.data(), sizeof(quantized));
  }
}

std::uint64_t rows_of_a_piece(std::uint64_t row_bytes) noexcept {
  const std::uint64_t rows = kPieceBytes / std::max<std::uint64_t>(row_bytes, 1);
  return std::max(kPieceRows, rows / kPieceRows * kPieceRows);
}

bool travels_quantized(const plan::Segment& segment, const plan::Wire& wire) noexcept {
  return segment.op == plan::Op::quantize && wire.prequantized;
}

std::vector<Travel> travels_of(const plan::Wire& wire, std::uint32_t first_entry, std::uint32_t entries) {
  std::vector<Travel> travels;
  travels.reserve(entries);
  for (std::uint32_t e = first_entry; e < first_entry + entries; ++e) {
    const plan::WireEntry& entry = wire.entries[e];
    if (entry.scale && !travels.empty()) {  // its values are the entry before it
      travels.back().scales = e;
      continue;
    }
    Travel& travel = travels.emplace_back();
    travel.segment = entry.segment;
    travel.rows = {entry.row_begin, entry.rows};
    (entry.scale ? travel.scales : travel.values) = e;
  }
  return travels;
}

void visit_travel(const plan::Plan& plan, const plan::Wire& wire, const Travel& travel, Rows rows,
                  Bytes sources, const std::function<void(Bytes values, Bytes scales)>& visit) {
  const plan::Segment& segment = plan.segments[travel.segment];
  if (!travels_quantized(segment, wire)) {
    visit(source_rows(plan, segment, rows, sources), {});
    return;
  }
  std::vector<std::byte> values(rows.count * value_row_bytes(plan, segment));
  std::vector<std::byte> scales(rows.count * scale_row_bytes(segment));
  quantize_rows(plan, segment, rows, sources, values, scales);
  visit(values, scales);
}

std::string_view difference_of(const plan::Segment& segment, bool quantized) noexcept {
  return segment.op == plan::Op::quantize && quantized ? "differs from the scalar reference"
                                                       : "differs from the source";
}

Bytes destination_bytes(const plan::Plan& plan, std::uint32_t destination, std::uint64_t at,
                        std::uint64_t size, Bytes destinations) {
  const plan::Destination& owner = plan.destinations[destination];
  if (at + size > owner.spec.bytes()) {
    fail_input(fmt::format("The reference layout of {} reaches byte {}, and the plan gives it {} bytes.",
                           owner.spec.name, at + size, owner.spec.bytes()));
  }
  return destinations.subspan(owner.offset + at, size);
}

void require_sources(const plan::Plan& plan, Bytes sources) {
  require_arena("source", plan.source_arena_bytes, sources.size());
}
void require_destinations(const plan::Plan& plan, Bytes destinations) {
  require_arena("destination", plan.destination_arena_bytes, destinations.size());
}

void require_packed(const plan::Wire& wire, std::size_t bucket, Bytes packed) {
  const std::uint64_t used = wire.buckets[bucket].used_bytes;
  if (packed.size() < used) {
    fail_input(fmt::format("Bucket {} has {} used bytes, and {} were given to verify.", bucket, used,
                           packed.size()));
  }
}

void require_marks(const plan::Plan& plan, const std::vector<bool>& masked) {
  if (!masked.empty() && masked.size() != plan.segments.size()) {
    fail_input(
        fmt::format("The checks in place need a mark for each of {} segments or none, and {} were given.",
                    plan.segments.size(), masked.size()));
  }
}

Canonical reference_rows(const plan::Plan& plan, const plan::Segment& segment, std::uint64_t row_begin,
                         std::uint64_t rows, Bytes sources) {
  Canonical canonical;
  if (segment.op == plan::Op::zero) {
    canonical.values.resize(rows * value_row_bytes(plan, segment));
  } else if (segment.op == plan::Op::quantize) {
    canonical.values.resize(rows * value_row_bytes(plan, segment));
    canonical.scales.resize(rows * scale_row_bytes(segment));
    quantize_rows(plan, segment, {row_begin, rows}, sources, canonical.values, canonical.scales);
  } else {
    const Bytes source = source_rows(plan, segment, {row_begin, rows}, sources);
    canonical.values.assign(source.begin(), source.end());
  }
  return canonical;
}

std::vector<std::byte> reference_entry(const plan::Plan& plan, const plan::Wire& wire, std::size_t entry,
                                       Bytes sources) {
  const Travel travel = travels_of(wire, static_cast<std::uint32_t>(entry), 1).front();
  std::vector<std::byte> bytes;
  visit_travel(plan, wire, travel, travel.rows, sources, [&](Bytes values, Bytes scales) {
    const Bytes carried = wire.entries[entry].scale ? scales : values;
    bytes.assign(carried.begin(), carried.end());
  });
  return bytes;
}

}  // namespace refit::verify
