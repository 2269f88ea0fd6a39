// Which tensors become MXFP8. Kinds decide: lists of names have missed spellings of the router's
// (NVIDIA-NeMo/RL PR 3614), and "gate" is a part of gate_proj and gate_up_proj too.
#include "refit/model/recipe.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "refit/base/error.hpp"

namespace refit::model {
namespace {

constexpr std::array<std::pair<std::string_view, RecipeKind>, 4> recipe_names{{
    {"routed-experts", RecipeKind::routed_experts},
    {"mlp", RecipeKind::mlp},
    {"all-linear", RecipeKind::all_linear},
    {"none", RecipeKind::none},
}};

/// Matrices among tensors whose kind does not tell. An engine quantizes what it builds as a linear layer and
/// whose name ends in "weight" (NeMo-RL, fp8.py, _is_fp8_weight). vLLM builds latent attention's q_a, q_b,
/// kv_a and kv_b, the delta net's in_proj_qkv, in_proj_z and out_proj, and Mamba's in_proj and out_proj that
/// way; norms, sinks, A_log, D and dt_bias are vectors, and a convolution's weight has three dimensions.
bool is_linear(const Tensor& tensor) {
  const std::string_view name = tensor.spec.name;
  if (tensor.spec.shape.size() != 2 || !name.ends_with(".weight")) return false;
  // One output a head, so fewer than the 128 rows that the MXFP8 matrix product takes (vLLM,
  // mxfp8/flashinfer.py).
  return !name.ends_with(".in_proj_a.weight") && !name.ends_with(".in_proj_b.weight");
}

bool selected(const Tensor& tensor, RecipeKind recipe) {
  const bool mlp = recipe == RecipeKind::mlp || recipe == RecipeKind::all_linear;
  switch (tensor.kind) {
    case Kind::expert_gate:
    case Kind::expert_up:
    case Kind::expert_down:
    case Kind::expert_gate_up_slab:
    case Kind::expert_down_slab:
      return recipe != RecipeKind::none;
    case Kind::mlp_gate:
    case Kind::mlp_up:
    case Kind::mlp_down:
    case Kind::shared_gate:
    case Kind::shared_up:
    case Kind::shared_down:
      return mlp;
    case Kind::attention_q:
    case Kind::attention_k:
    case Kind::attention_v:
    case Kind::attention_o:
      return recipe == RecipeKind::all_linear;
    case Kind::attention_other:
    case Kind::mamba:
      return recipe == RecipeKind::all_linear && is_linear(tensor);
    case Kind::embedding:
    case Kind::lm_head:
    case Kind::norm:
    case Kind::attention_bias:
    case Kind::shared_router:
    case Kind::router:
    case Kind::router_bias:
    case Kind::expert_bias_slab:
    case Kind::mtp_other:
      return false;
  }
  return false;
}

}  // namespace

std::string_view name_of(RecipeKind kind) noexcept {
  for (const auto& [name, value] : recipe_names) {
    if (value == kind) return name;
  }
  return "unknown";
}

std::optional<RecipeKind> parse_recipe(std::string_view name) noexcept {
  for (const auto& [known, value] : recipe_names) {
    if (known == name) return value;
  }
  return std::nullopt;
}

RecipeKind default_recipe(const Inventory& model) noexcept {
  return model.moe() ? RecipeKind::routed_experts : RecipeKind::mlp;
}

std::vector<bool> select_quantized(const Inventory& model, const Recipe& recipe) {
  for (const std::string& keyword : recipe.ignore) {
    if (keyword.empty()) fail_input("An empty ignore keyword is a part of every name.");
  }
  std::vector<bool> flags;
  flags.reserve(model.tensors.size());
  for (const Tensor& tensor : model.tensors) {
    const bool ignored = std::any_of(
        recipe.ignore.begin(), recipe.ignore.end(),
        [&](const std::string& keyword) { return tensor.spec.name.find(keyword) != std::string::npos; });
    flags.push_back(!ignored && selected(tensor, recipe.kind));
  }
  return flags;
}

}  // namespace refit::model
