// What all layouts share: from boxes and their holders to what one rank holds.
#pragma once

#include <functional>
#include <vector>

#include "refit/reshard/layout.hpp"

namespace refit::reshard {

/// What a rank holds of one tensor: boxes of the same columns, one below the other.
struct Holding {
  std::uint32_t tensor = 0;  ///< index into Inventory::tensors
  std::vector<Box> boxes;
  std::uint64_t rows = 0, cols = 0;  ///< of the rank's own matrix, rows of vocabulary padding included
  [[nodiscard]] std::uint64_t box_rows() const noexcept;
};

/// The shape of what is held of a tensor of shape `whole`: dimensions before the last keep their meaning.
[[nodiscard]] Shape held_shape(const Shape& whole, const Holding& holding);

class ShardedLayout : public Layout {
 public:
  /// Every tensor under the checkpoint's name.
  [[nodiscard]] Local local(std::uint32_t rank) const override;

 protected:
  ShardedLayout(const model::Inventory& model, Parallelism parallelism) : model_(&model) {
    parallelism_ = std::move(parallelism);
  }
  [[nodiscard]] const model::Inventory& model() const noexcept { return *model_; }
  /// In the order of the model. Throws Error(input) for a rank that does not exist.
  void for_each_holding(std::uint32_t rank, const std::function<void(const Holding&)>& visit) const;
  /// Rows of a vocabulary that a rank keeps, however few of them are real; 0 for what has no padding.
  [[nodiscard]] virtual std::uint64_t padded_rows(std::uint32_t /*tensor*/, std::uint32_t /*rank*/) const {
    return 0;
  }

 private:
  const model::Inventory* model_;
};

}  // namespace refit::reshard
