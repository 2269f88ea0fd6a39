// Where the engine keeps a tensor: parameter names, fusion and stacking, as vLLM has them.
#pragma once

#include <cstdint>
#include <string>

#include "refit/model/inventory.hpp"

namespace refit::plan {

/// How sources become one parameter.
enum class Assembly : std::uint8_t {
  whole,    ///< one source, under its own name
  fused,    ///< parts one below the other in one matrix: q, k, v or gate, up
  experts,  ///< a stack of matrices, one an expert, each of one part or of gate above up
  slab,     ///< one source that already stacks all experts
};

struct Place {
  Assembly assembly = Assembly::whole;
  std::string name;         ///< of the parameter
  std::uint32_t part = 0;   ///< which part of it the source is
  std::uint32_t parts = 1;  ///< parts of the complete parameter (w13 without a gate: fewer)
};

/// Parts of a gated w13, in checkpoint order.
inline constexpr std::uint32_t gate_part = 0, up_part = 1;

/// The place of one tensor, by its kind and name alone. Whether a fused parameter is complete shows only when
/// all tensors are placed.
[[nodiscard]] Place place_of(const model::Tensor& tensor, bool transposed_slabs);

/// Whether the model keeps its expert slabs with K in the middle ([E, H, 2I] and [E, I, H], gpt-oss), where
/// neither blocks of 32 along the last dimension nor rows of an expert exist.
[[nodiscard]] bool has_transposed_slabs(const model::Inventory& model);

/// The name under which expert `expert` of a slab travels.
[[nodiscard]] std::string slab_wire_name(const model::Tensor& slab, std::uint64_t expert);

}  // namespace refit::plan
