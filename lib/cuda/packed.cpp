// One item for the rows that travel together: values, scales, or both.
#include "cuda/packed.hpp"

#include "cuda/kernel_enums.hpp"
#include "verify/reference.hpp"

namespace refit::cuda {

void add_packed(const plan::Plan& plan, const plan::Wire& wire, std::size_t bucket,
                std::span<const std::byte> packed, std::span<const std::byte> sources, verify::Tally& tally,
                Comparison& comparison) {
  const plan::Bucket& described = wire.buckets[bucket];
  const std::vector<verify::Travel> travels =
      verify::travels_of(wire, described.first_entry, described.entries);
  comparison.reserve(travels.size());
  const auto owner_of = [&](std::uint32_t entry) {
    if (entry == plan::kNone) return Comparison::Owner{};
    return Comparison::Owner{.tensor = entry, .f32 = wire.entries[entry].dtype == DType::f32};
  };
  const auto bytes_of = [&](std::uint32_t entry) -> const std::byte* {
    return entry == plan::kNone ? nullptr : packed.data() + wire.offsets[entry];
  };
  for (const verify::Travel& travel : travels) {
    const plan::Segment& segment = plan.segments[travel.segment];
    kernels::Compare item;
    item.from = verify::source_rows(plan, segment, travel.rows, sources).data();
    item.values = bytes_of(travel.values);
    item.scales = bytes_of(travel.scales);
    item.rows = travel.rows.count;
    item.cols = segment.cols;
    item.row_bytes = segment.cols * size_of(plan.sources[segment.source].spec.dtype);
    if (verify::travels_quantized(segment, wire)) {
      item.expect = kernels::Expect::quantize;
      item.rounding = kernel_enum(plan.quant.rounding);
      item.zero_scale = kernel_enum(plan.quant.zero_scale);
      item.scale_layout = kernels::ScaleLayout::row_major;
    }
    comparison.add(item, owner_of(travel.values), owner_of(travel.scales),
                   {Comparison::Listener{&tally, verify::difference_of(segment, wire.prequantized)}});
  }
}

}  // namespace refit::cuda
