// From a plan's sources to the elements that lib/device/weights.cpp speaks of.
#include "cuda/weights.hpp"

#include <vector>

#include "verify/reference.hpp"

namespace refit::cuda {
namespace {

kernels::Weights weights_of(const plan::Source& source, std::byte* data, std::uint64_t key) {
  kernels::Weights weights{.data = data, .key = key, .cols = source.spec.cols()};
  switch (source.spec.dtype) {
    case DType::bf16:
      weights.kind = kernels::WeightKind::bf16;
      break;
    case DType::f32:
      weights.kind = kernels::WeightKind::f32;
      break;
    default:
      weights.kind = kernels::WeightKind::bytes;
      weights.elements = source.spec.bytes();
      return weights;
  }
  weights.elements = num_elements(source.spec.shape);
  return weights;
}

}  // namespace

Work<kernels::Weights> weights_of(const plan::Plan& plan, std::span<std::byte> sources,
                                  const WeightKey& key_of) {
  verify::require_sources(plan, sources);
  std::vector<kernels::Weights> items;
  items.reserve(plan.sources.size());
  for (const plan::Source& source : plan.sources) {
    items.push_back(weights_of(source, sources.data() + source.offset, key_of(source)));
  }
  return cut_into_tiles(std::move(items), kernels::kWeightTile,
                        [](const kernels::Weights& weights) { return weights.elements; });
}

}  // namespace refit::cuda
