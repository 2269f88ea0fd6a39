// One item a segment, and one for the padding of each matrix.
#include "cuda/in_place.hpp"

#include "cuda/kernel_enums.hpp"

namespace refit::cuda {

void InPlaceItems::add_to(Comparison& comparison) {
  const std::vector<verify::FedMatrix> matrices = verify::fed_matrices(plan_);
  comparison.reserve(plan_.segments.size() + matrices.size());
  Storage storage;
  for (const verify::FedMatrix& fed : matrices) {  // those of a destination follow each other
    if (plan_.destinations[fed.destination].scale == plan::kNone) {
      add_copies(comparison, fed);
      continue;
    }
    if (storage.destination != fed.destination) storage = storage_of(fed.destination);
    add_quantized(comparison, fed, storage);
    add_padding(comparison, fed, storage);
  }
}

InPlaceItems::Storage InPlaceItems::storage_of(std::uint32_t destination) {
  const plan::Destination& weight = plan_.destinations[destination];
  Storage storage{.destination = destination, .reference = &tables_.of(plan_, weight)};
  const bool shuffled = weight.row_map != plan::kNone;
  storage.agree = storage.reference->closed &&
                  (!shuffled || plan_.row_maps[weight.row_map] == storage.reference->stored_rows);
  if (storage.agree || asked_.quantizer == nullptr) return storage;
  if (shuffled) storage.plan_rows = row_maps_.stored_rows(plan_.row_maps[weight.row_map]);
  if (storage.reference->padding != 0) {
    // The quantizer check does not look at padding, and the kernel's formula would.
    own_tables_.push_back(tables_.upload(places_of_plan(weight)));
    storage.plan_places = table_in(own_tables_.back());
  }
  return storage;
}

std::vector<std::uint32_t> InPlaceItems::places_of_plan(const plan::Destination& weight) const {
  const plan::Destination& scale = plan_.destinations[weight.scale];
  const std::uint64_t columns = weight.spec.cols() / quant::kBlock;
  std::vector<std::uint32_t> places(weight.matrix_rows * columns);
  for (std::uint64_t i = 0; i < places.size(); ++i) {
    const std::uint64_t row = i / columns;
    const std::uint64_t stored = weight.row_map == plan::kNone ? row : plan_.row_maps[weight.row_map][row];
    places[i] = static_cast<std::uint32_t>(plan::scale_offset(scale, stored, i % columns));
  }
  return places;
}

void InPlaceItems::add_copies(Comparison& comparison, const verify::FedMatrix& fed) const {
  const plan::Destination& owner = plan_.destinations[fed.destination];
  for (const std::uint32_t i : fed.segments) {
    if (masked(i)) continue;
    const plan::Segment& segment = plan_.segments[i];
    const std::uint64_t row_bytes = verify::value_row_bytes(plan_, segment);
    const std::uint64_t at = segment.matrix * owner.matrix_bytes + segment.row_begin * row_bytes;
    kernels::Compare item;
    item.expect = kernels::Expect::copy;
    item.from = verify::source_rows(plan_, segment, {0, segment.rows}, asked_.sources).data();
    item.values =
        verify::destination_bytes(plan_, fed.destination, at, segment.rows * row_bytes, asked_.destinations)
            .data();
    item.rows = segment.rows;
    item.cols = segment.cols;
    item.row_bytes = row_bytes;
    const std::string_view what = verify::difference_of(segment, true);
    comparison.add(item, {.tensor = fed.destination, .at = at, .f32 = owner.spec.dtype == DType::f32}, {},
                   {{{asked_.quantizer, what}, {asked_.layout, what}}});
  }
}

void InPlaceItems::add_quantized(Comparison& comparison, const verify::FedMatrix& fed,
                                 const Storage& storage) const {
  const plan::Destination& weight = plan_.destinations[fed.destination];
  const plan::Destination& scale = plan_.destinations[weight.scale];
  const Comparison::Owner values{.tensor = fed.destination, .at = fed.matrix * weight.matrix_bytes};
  const Comparison::Owner scales{.tensor = weight.scale, .at = fed.matrix * scale.matrix_bytes};
  kernels::Compare item;
  item.expect = kernels::Expect::quantize;
  item.rounding = kernel_enum(plan_.quant.rounding);
  item.zero_scale = kernel_enum(plan_.quant.zero_scale);
  item.scale_layout = kernel_enum(scale.scale_layout);
  item.values =
      verify::destination_bytes(plan_, fed.destination, values.at, weight.matrix_bytes, asked_.destinations)
          .data();
  item.scales = verify::destination_bytes(plan_, weight.scale, scales.at, storage.reference->scale_bytes,
                                          asked_.destinations)
                    .data();
  for (const std::uint32_t i : fed.segments) {
    if (masked(i)) continue;
    const plan::Segment& segment = plan_.segments[i];
    item.from = verify::source_rows(plan_, segment, {0, segment.rows}, asked_.sources).data();
    item.row_begin = segment.row_begin;
    item.rows = segment.rows;
    item.cols = segment.cols;
    item.row_bytes = segment.cols * size_of(DType::bf16);
    const Comparison::Listener quantizer{asked_.quantizer, verify::difference_of(segment, true)};
    const Comparison::Listener layout{asked_.layout, verify::kOtherLayout};
    item.stored_rows = table_in(storage.reference->device_rows);
    item.scale_places = table_in(storage.reference->device_places);
    if (storage.agree) {
      comparison.add(item, values, scales, {quantizer, layout});
      continue;
    }
    if (layout.tally != nullptr) comparison.add(item, values, scales, {layout});
    item.stored_rows = storage.plan_rows;
    item.scale_places = storage.plan_places;
    if (quantizer.tally != nullptr) comparison.add(item, values, scales, {quantizer});
  }
}

void InPlaceItems::add_padding(Comparison& comparison, const verify::FedMatrix& fed,
                               const Storage& storage) const {
  if (asked_.layout == nullptr || storage.reference->padding == 0) return;
  const std::uint32_t number = plan_.destinations[fed.destination].scale;
  const std::uint64_t at = fed.matrix * plan_.destinations[number].matrix_bytes;
  kernels::Compare item;
  item.expect = kernels::Expect::places;
  item.scales =
      verify::destination_bytes(plan_, number, at, storage.reference->scale_bytes, asked_.destinations)
          .data();
  item.scale_places = table_in(storage.reference->device_padding);
  item.rows = storage.reference->padding;
  comparison.add(item, {}, {.tensor = number, .at = at},
                 {Comparison::Listener{asked_.layout, verify::kPaddingNotZero}});
}

}  // namespace refit::cuda
