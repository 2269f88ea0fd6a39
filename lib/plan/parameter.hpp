// One parameter of the engine, assembled from the sources that share it: shape, order of its parts, refusals.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/engine_layout.hpp"
#include "refit/plan/plan.hpp"

namespace refit::plan {

/// The sources of one parameter, in the order of the model.
struct Group {
  Assembly assembly = Assembly::whole;
  std::string name;
  std::uint32_t parts = 1;
  struct Member {
    std::uint32_t source = 0;
    std::uint32_t part = 0;
  };
  std::vector<Member> members;
};

/// Every parameter of the model in the order in which their first sources appear. Fused parameters that lack
/// a part (up without gate, q of a latent attention) fall back to the sources' own names.
[[nodiscard]] std::vector<Group> group_sources(const model::Inventory& model);

/// What assembling needs to know of the sources.
struct Sources {
  const std::vector<model::Tensor>& tensors;
  const std::vector<bool>& quantized;
  MoeLayout moe_layout{};
};

struct Parameter {
  Destination weight;                            ///< without offset, scale and row map
  ScaleLayout scale_layout = ScaleLayout::none;  ///< none: not quantized
  bool shuffled = false;                         ///< rows in the order of the TRT-LLM kernels
  struct Slot {
    std::uint64_t matrix = 0, row_begin = 0;
  };
  std::vector<Slot> slots;  ///< where each member's first row belongs
};

/// Throws Error(input) naming tensor, size and rule for everything that build() refuses.
[[nodiscard]] Parameter assemble(const Group& group, const Sources& sources);

}  // namespace refit::plan
