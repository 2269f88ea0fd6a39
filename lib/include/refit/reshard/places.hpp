// Where a transfer begins and ends inside two ranks: the trainer's own tensor, the engine's parameter.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "refit/model/recipe.hpp"
#include "refit/plan/plan.hpp"
#include "refit/reshard/reshard.hpp"

namespace refit::reshard {

/// A row and a column of a matrix of a tensor.
struct Place {
  std::string tensor;
  std::uint64_t matrix = 0;  ///< expert of a stacked parameter of the engine, else 0
  std::uint64_t row = 0, col = 0;
};

/// Rows of a transfer that stay together on both sides.
struct PlacedTransfer {
  Transfer transfer;  ///< the whole of it
  Box box;            ///< the part of its box
  Place from;
  Place to;  ///< rows in canonical order, before the shuffle of the MoE layout
};

/// Of transfers of one tensor, in their order. `recipe` and `moe_layout` are the engine's.
/// Error(input): what plan::build refuses of the parameters that the tensor's layer makes.
[[nodiscard]] std::vector<PlacedTransfer> places(const Layout& trainer, const Layout& generator,
                                                 const std::vector<Transfer>& transfers,
                                                 const model::Recipe& recipe, plan::MoeLayout moe_layout);

}  // namespace refit::reshard
