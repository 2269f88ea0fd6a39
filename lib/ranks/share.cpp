// Arenas of one rank.
#include "ranks/share.hpp"

#include <algorithm>

#include "refit/base/bytes.hpp"

namespace refit::ranks {
namespace {

std::vector<device::WeightBox> boxes(const model::Inventory& model, const reshard::Local& local,
                                     std::span<std::byte> arena, const std::vector<std::uint64_t>& offsets) {
  std::vector<device::WeightBox> boxes;
  boxes.reserve(local.placed.size());
  for (const reshard::Placed& placed : local.placed) {
    const TensorSpec& own = local.tensors[placed.local];
    const std::uint64_t size = size_of(own.dtype), pitch = own.cols() * size;
    std::byte* const data =
        arena.data() + offsets[placed.local] + placed.local_row * pitch + placed.local_col * size;
    boxes.push_back({.tensor = &model.tensors[placed.tensor].spec,
                     .row = placed.box.row,
                     .rows = placed.box.rows,
                     .col = placed.box.col,
                     .cols = placed.box.cols,
                     .data = data,
                     .pitch = pitch});
  }
  return boxes;
}

plan::Plan plan_of(const reshard::Local& local, plan::Request request) {
  request.model = local.model;
  return plan::build(request);
}

}  // namespace

PlacedIndex::PlacedIndex(const reshard::Local& local, std::size_t tensors)
    : placed_(local.placed), first_(tensors + 1, local.placed.size()) {
  for (std::size_t i = local.placed.size(); i-- > 0;) first_[local.placed[i].tensor] = i;
  for (std::size_t t = tensors; t-- > 0;) first_[t] = std::min(first_[t], first_[t + 1]);
}

TrainerShare::TrainerShare(const model::Inventory& its_model, const reshard::Layout& layout,
                           std::uint32_t rank)
    : model(its_model), local(layout.local(rank)), placed(local, model.tensors.size()) {
  arena_bytes = plan::kArenaAlignment;
  for (const TensorSpec& tensor : local.tensors) {
    extents.push_back({tensor.name, arena_bytes, tensor.bytes()});
    arena_bytes = align_up(arena_bytes + tensor.bytes(), plan::kArenaAlignment) + plan::kArenaAlignment;
  }
}

std::vector<device::WeightBox> TrainerShare::weights(std::span<std::byte> arena) const {
  std::vector<std::uint64_t> offsets;
  for (const verify::Extent& extent : extents) offsets.push_back(extent.offset);
  return boxes(model, local, arena, offsets);
}

GeneratorShare::GeneratorShare(const model::Inventory& its_model, const reshard::Layout& layout,
                               std::uint32_t rank, const plan::Request& request)
    : model(its_model),
      local(layout.local(rank)),
      placed(local, model.tensors.size()),
      plan(plan_of(local, request)),
      segments(plan.sources.size()) {
  for (std::uint32_t s = 0; s < plan.segments.size(); ++s) {
    if (plan.segments[s].source != plan::kNone) segments[plan.segments[s].source].push_back(s);
  }
  for (std::vector<std::uint32_t>& own : segments) {
    std::sort(own.begin(), own.end(), [&](std::uint32_t a, std::uint32_t b) {
      return plan.segments[a].source_row < plan.segments[b].source_row;
    });
  }
}

std::vector<device::WeightBox> GeneratorShare::reference(std::span<std::byte> sources) const {
  std::vector<std::uint64_t> offsets;
  for (const plan::Source& source : plan.sources) offsets.push_back(source.offset);
  return boxes(model, local, sources, offsets);
}

}  // namespace refit::ranks
