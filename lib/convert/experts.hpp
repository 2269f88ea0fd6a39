// Routed experts by their names, and the stacks that the TRT-LLM MoE kernels want.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convert/selection.hpp"
#include "convert/source.hpp"

namespace refit::convert {

/// Rows of a gated w13 in checkpoint order are gate, then up.
enum class Projection : std::uint8_t { gate, up, down };

struct ExpertName {
  std::string_view stack;  ///< up to and with ".experts"
  std::uint64_t expert = 0;
  Projection projection{};
};
/// "model.layers.0.mlp.experts.7.gate_proj.weight", or w1, w3, w2 as Mixtral has it.
[[nodiscard]] std::optional<ExpertName> parse_expert(std::string_view name);

/// All experts of a layer: indices into Source::tensors by projection, expert by expert; no gate for experts
/// that have none.
struct Stack {
  std::string name;
  Op op{};
  std::uint32_t first = kNone;  ///< the first of its tensors, in whose place it is written
  std::array<std::vector<std::uint32_t>, 3> members;
  [[nodiscard]] bool gated() const noexcept { return !members[0].empty(); }
};

/// The stacks whose experts are or become MXFP8. Throws Error(input) that names what is missing, differs in
/// shape or is treated otherwise than the rest of its stack.
[[nodiscard]] std::vector<Stack> expert_stacks(const Source& source, const Selection& selection);

}  // namespace refit::convert
