// Megatron-Core's ranks: their division, and the tensors that each one keeps.
#pragma once

#include <vector>

#include "reshard/divided_layout.hpp"
#include "reshard/megatron_names.hpp"

namespace refit::reshard {

class MegatronLayout : public DividedLayout {
 public:
  MegatronLayout(const model::Inventory& model, Parallelism parallelism);
  [[nodiscard]] Local local(std::uint32_t rank) const override;

 private:
  [[nodiscard]] MegatronPlace place_of(const model::Tensor& tensor, const Coordinates& at) const;
  std::vector<LayerContents> contents_;  // of each layer, by the index in names
};

}  // namespace refit::reshard
