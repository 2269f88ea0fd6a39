// From boxes to the elements that lib/device/weights.cpp speaks of.
#include "cuda/weights.hpp"

#include <vector>

namespace refit::cuda {
namespace {

/// Elements of `kind`; dtypes that are neither BF16 nor FP32 are bytes.
kernels::Weights weights_of(const device::WeightBox& box, std::uint64_t key) {
  kernels::Weights weights{.data = box.data, .key = key, .pitch = box.pitch};
  std::uint64_t size = 1;
  switch (box.tensor->dtype) {
    case DType::bf16:
      weights.kind = kernels::WeightKind::bf16;
      break;
    case DType::f32:
      weights.kind = kernels::WeightKind::f32;
      break;
    default:
      weights.kind = kernels::WeightKind::bytes;
      size = size_of(box.tensor->dtype);
  }
  weights.elements = num_elements(box.tensor->shape) * size;
  weights.cols = box.tensor->cols() * size;
  weights.first = (box.row * box.tensor->cols() + box.col) * size;
  weights.runs = box.is_one_run() ? 1 : box.rows;
  weights.run = (box.is_one_run() ? box.rows : 1) * box.cols * size;
  return weights;
}

}  // namespace

Work<kernels::Weights> weights_of(std::span<const device::WeightBox> boxes, const WeightKey& key_of) {
  std::vector<kernels::Weights> items;
  items.reserve(boxes.size());
  for (const device::WeightBox& box : boxes) items.push_back(weights_of(box, key_of(*box.tensor)));
  return cut_into_tiles(std::move(items), kernels::kWeightTile,
                        [](const kernels::Weights& weights) { return weights.runs * weights.run; });
}

}  // namespace refit::cuda
