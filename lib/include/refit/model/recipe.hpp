// Which tensors become MXFP8.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "refit/model/inventory.hpp"

namespace refit::model {

/// routed-experts: routed expert projections alone, slabs included (default for MoE). mlp: every MLP
/// projection, dense, shared and routed (default for dense models). all-linear: these and the projections of
/// attention, latent attention, delta nets and Mamba. Never routers, embeddings, norms, biases, vectors,
/// convolutions or lm_head.
enum class RecipeKind : std::uint8_t { routed_experts, mlp, all_linear, none };
[[nodiscard]] std::string_view name_of(RecipeKind kind) noexcept;
[[nodiscard]] std::optional<RecipeKind> parse_recipe(std::string_view name) noexcept;

struct Recipe {
  RecipeKind kind = RecipeKind::routed_experts;
  std::vector<std::string> ignore{};  ///< substrings of names, as quantization_ignored_layer_kws in NeMo-RL
};

[[nodiscard]] RecipeKind default_recipe(const Inventory& model) noexcept;

/// One flag for each of model.tensors.
[[nodiscard]] std::vector<bool> select_quantized(const Inventory& model, const Recipe& recipe);

}  // namespace refit::model
