// The tensors of a checkpoint as a conversion sees them: values with their scales, and what the model says of
// them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "refit/checkpoint/checkpoint.hpp"
#include "refit/convert/conversion.hpp"
#include "refit/model/inventory.hpp"

namespace refit::convert {

struct SourceTensor {
  const TensorSpec* spec = nullptr;
  std::uint32_t index = kNone;           ///< into Checkpoint::tensors()
  std::uint32_t scales = kNone;          ///< of an MXFP8 tensor: the same for its scales
  const model::Tensor* model = nullptr;  ///< null where the model does not have it
  [[nodiscard]] bool mxfp8() const noexcept { return scales != kNone; }
};

struct Source {
  const checkpoint::Checkpoint* checkpoint = nullptr;
  const model::Inventory* model = nullptr;
  /// Without the scales of MXFP8 tensors, which belong to their values.
  std::vector<SourceTensor> tensors;
  [[nodiscard]] bool any_mxfp8() const noexcept;
  [[nodiscard]] std::string place(const SourceTensor& tensor) const;  ///< "FILE: tensor 'NAME'"
};

/// Pairs values with scales. Throws Error(input) for an E4M3 weight without scales, for scales of another
/// shape than [.., K/32], and for scales under both names.
[[nodiscard]] Source read_source(const checkpoint::Checkpoint& checkpoint, const model::Inventory* model);

/// Warns of tensors that the model has and the source lacks; throws Error(input) for an expert that is
/// missing in a layer whose other experts are there.
void check_complete(const Source& source, std::vector<std::string>& warnings);

}  // namespace refit::convert
