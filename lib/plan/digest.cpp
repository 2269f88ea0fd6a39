// Plans and wires as byte strings: every field in the order of its structure, counts before lists.
#include "plan/digest.hpp"

#include "plan/byte_writer.hpp"
#include "refit/base/digest.hpp"

namespace refit::plan {
namespace {

template <class Enum>
void put_enum(ByteWriter& out, Enum value) {
  out.put(static_cast<std::uint8_t>(value));
}

void put_layer(ByteWriter& out, int layer) {
  out.put(static_cast<std::uint32_t>(layer));
}

void put_count(ByteWriter& out, std::size_t count) {
  out.put(static_cast<std::uint64_t>(count));
}

void put_shape(ByteWriter& out, const Shape& shape) {
  put_count(out, shape.size());
  for (const std::uint64_t dimension : shape) out.put(dimension);
}

void put_spec(ByteWriter& out, const TensorSpec& spec) {
  out.put_text(spec.name);
  put_shape(out, spec.shape);
  put_enum(out, spec.dtype);
}

void put_source(ByteWriter& out, const Source& source) {
  put_spec(out, source.spec);
  out.put(source.offset);
  put_enum(out, source.kind);
  put_layer(out, source.layer);
}

void put_destination(ByteWriter& out, const Destination& destination) {
  put_spec(out, destination.spec);
  out.put(destination.offset);
  out.put(destination.matrices);
  out.put(destination.matrix_rows);
  out.put(destination.matrix_bytes);
  out.put(destination.row_map);
  out.put(destination.gated);
  put_enum(out, destination.scale_layout);
  out.put(destination.scale_of);
  out.put(destination.scale);
  put_layer(out, destination.layer);
}

void put_segment(ByteWriter& out, const Segment& segment) {
  put_enum(out, segment.op);
  out.put(segment.source);
  out.put(segment.source_row);
  out.put(segment.rows);
  out.put(segment.cols);
  out.put(segment.destination);
  out.put(segment.matrix);
  out.put(segment.row_begin);
  out.put_text(segment.wire_name);
}

}  // namespace

std::uint64_t digest_of(const Plan& plan) {
  constexpr std::size_t typical_record = 128;
  ByteWriter out(typical_record * (plan.sources.size() + plan.destinations.size() + plan.segments.size()));
  put_count(out, plan.sources.size());
  for (const Source& source : plan.sources) put_source(out, source);
  put_count(out, plan.destinations.size());
  for (const Destination& destination : plan.destinations) put_destination(out, destination);
  put_count(out, plan.segments.size());
  for (const Segment& segment : plan.segments) put_segment(out, segment);
  put_count(out, plan.row_maps.size());
  for (const auto& map : plan.row_maps) {
    put_count(out, map.size());
    for (const std::uint32_t row : map) out.put(row);
  }
  put_enum(out, plan.quant.rounding);
  put_enum(out, plan.quant.zero_scale);
  put_enum(out, plan.moe_layout);
  out.put(plan.source_arena_bytes);
  out.put(plan.destination_arena_bytes);
  out.put(plan.source_bytes);
  out.put(plan.destination_bytes);
  return digest_text(out.bytes());
}

std::uint64_t digest_of(const Wire& wire) {
  constexpr std::size_t typical_record = 144;
  ByteWriter out(typical_record * wire.entries.size());
  put_count(out, wire.entries.size());
  for (std::size_t i = 0; i < wire.entries.size(); ++i) {
    const WireEntry& entry = wire.entries[i];
    out.put_text(entry.name);
    put_enum(out, entry.dtype);
    put_shape(out, entry.shape);
    out.put(entry.bytes);
    out.put(entry.segment);
    out.put(entry.row_begin);
    out.put(entry.rows);
    out.put(entry.scale);
    out.put(wire.offsets[i]);
  }
  put_count(out, wire.buckets.size());
  for (const Bucket& bucket : wire.buckets) {
    out.put(bucket.first_entry);
    out.put(bucket.entries);
    out.put(bucket.used_bytes);
  }
  out.put(wire.prequantized);
  out.put(wire.bytes);
  out.put(wire.largest_bucket);
  return digest_text(out.bytes());
}

}  // namespace refit::plan
