// A model's tensors in the checkpoint that was refitted: BF16, F16, F32, or MXFP8 already.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "audit/elements.hpp"
#include "refit/audit/engine.hpp"
#include "refit/checkpoint/checkpoint.hpp"

namespace refit::audit {

/// One tensor as the file has it.
struct Weight {
  Bytes values, scales{};  ///< scales: of an MXFP8 tensor, [rows, K / 32]
  DType dtype{};
  std::uint64_t rows = 0;  ///< a padded vocabulary has more than the model's
  bool mxfp8 = false;      ///< values and scales are expected as they are
  DType cast_to{};  ///< what engines make of its dtype, if they do: BF16 to compute in, F32 for routers
};

/// In the order of the model's tensors, and so of the plan's sources.
using Weights = std::vector<Weight>;

/// The scales beside E4M3 values: NAME_scale or NAME_scale_from_checkpoint of U8 or F8_E8M0; null without.
[[nodiscard]] const checkpoint::Checkpoint::Tensor* find_scales(const checkpoint::Checkpoint& file,
                                                                const std::string& name);

/// Error(input) naming file, tensor and numbers for one that is missing, has another shape than the model's
/// (a vocabulary may have more rows), or has scales of another shape or under two names.
[[nodiscard]] Weights read_weights(const checkpoint::Checkpoint& file, const model::Inventory& model);

/// The request with the dtypes that tensors of `file` have when they are refitted: their own, and BF16 for
/// what becomes MXFP8 or is it already. Error(input) for an MXFP8 tensor that the recipe leaves out.
[[nodiscard]] EngineRequest with_dtypes(EngineRequest request, const checkpoint::Checkpoint& file,
                                        const Weights& weights);

/// Error(input) unless every tensor of `other` is of the same dtype.
void require_alike(const checkpoint::Checkpoint& file, const Weights& weights, const Weights& other,
                   const model::Inventory& model);

}  // namespace refit::audit
