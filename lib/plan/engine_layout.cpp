// The engine's parameter names, one function for each group of kinds.
// Sources: vLLM's packed_modules_mapping (qkv_proj, gate_up_proj) and FusedMoE parameters (w13_weight,
// w2_weight); the checkpoint renaming in NeMo-RL's fp8.py.
#include "plan/engine_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "refit/base/error.hpp"

namespace refit::plan {
namespace {

using model::Kind;
using model::Tensor;

/// "model.layers.0.self_attn", "q_proj", "weight".
struct NameParts {
  std::string_view prefix, module, suffix;
};

std::optional<NameParts> split_name(std::string_view name) {
  const std::size_t suffix_dot = name.rfind('.');
  if (suffix_dot == std::string_view::npos || suffix_dot == 0) return std::nullopt;
  const std::size_t module_dot = name.rfind('.', suffix_dot - 1);
  if (module_dot == std::string_view::npos) return std::nullopt;
  return NameParts{.prefix = name.substr(0, module_dot),
                   .module = name.substr(module_dot + 1, suffix_dot - module_dot - 1),
                   .suffix = name.substr(suffix_dot + 1)};
}

/// The name up to and with ".experts".
std::string_view experts_prefix(const Tensor& tensor) {
  constexpr std::string_view experts = ".experts";
  const std::string_view name = tensor.spec.name;
  const std::size_t dot = name.rfind(".experts.");
  if (dot == std::string_view::npos) {
    fail_input(fmt::format("Tensor {} is a routed expert's {}, but its name has no \".experts.\" in it.",
                           name, model::name_of(tensor.kind)));
  }
  return name.substr(0, dot + experts.size());
}

Place own_name(const Tensor& tensor) {
  return {.assembly = Assembly::whole, .name = tensor.spec.name, .part = 0, .parts = 1};
}

Place fused(const Tensor& tensor, std::string_view module, std::uint32_t part, std::uint32_t parts) {
  const auto name = split_name(tensor.spec.name);
  if (!name) return own_name(tensor);
  return {.assembly = Assembly::fused,
          .name = fmt::format("{}.{}.{}", name->prefix, module, name->suffix),
          .part = part,
          .parts = parts};
}

Place attention_projection(const Tensor& tensor) {
  const std::uint32_t part = tensor.kind == Kind::attention_q ? 0 : tensor.kind == Kind::attention_k ? 1 : 2;
  return fused(tensor, "qkv_proj", part, 3);
}

Place attention_bias(const Tensor& tensor) {
  constexpr std::array<std::string_view, 3> modules = {"q_proj", "k_proj", "v_proj"};
  const auto name = split_name(tensor.spec.name);
  const auto found = std::find(modules.begin(), modules.end(), name ? name->module : "");
  if (found == modules.end()) return own_name(tensor);
  return fused(tensor, "qkv_proj", static_cast<std::uint32_t>(found - modules.begin()), 3);
}

Place gate_or_up(const Tensor& tensor) {
  const bool gate = tensor.kind == Kind::mlp_gate || tensor.kind == Kind::shared_gate;
  return fused(tensor, "gate_up_proj", gate ? gate_part : up_part, 2);
}

Place routed_expert(const Tensor& tensor) {
  const bool down = tensor.kind == Kind::expert_down;
  return {.assembly = Assembly::experts,
          .name = fmt::format("{}.{}", experts_prefix(tensor), down ? "w2_weight" : "w13_weight"),
          .part = tensor.kind == Kind::expert_up ? up_part : gate_part,
          .parts = down ? 1u : 2u};
}

Place expert_slab(const Tensor& tensor) {
  const bool down = tensor.kind == Kind::expert_down_slab;
  return {.assembly = Assembly::slab,
          .name = fmt::format("{}.{}", experts_prefix(tensor), down ? "w2_weight" : "w13_weight"),
          .part = 0,
          .parts = 1};
}

}  // namespace

Place place_of(const Tensor& tensor, bool transposed_slabs) {
  switch (tensor.kind) {
    case Kind::attention_q:
    case Kind::attention_k:
    case Kind::attention_v:
      return attention_projection(tensor);
    case Kind::attention_bias:
      return attention_bias(tensor);
    case Kind::mlp_gate:
    case Kind::mlp_up:
    case Kind::shared_gate:
    case Kind::shared_up:
      return gate_or_up(tensor);
    case Kind::expert_gate:
    case Kind::expert_up:
    case Kind::expert_down:
      return routed_expert(tensor);
    case Kind::expert_gate_up_slab:
    case Kind::expert_down_slab:
      return transposed_slabs ? own_name(tensor) : expert_slab(tensor);
    default:
      return own_name(tensor);
  }
}

bool has_transposed_slabs(const model::Inventory& model) {
  if (model.model_type == "gpt_oss") return true;
  return std::any_of(model.tensors.begin(), model.tensors.end(), [&](const Tensor& tensor) {
    const Shape& shape = tensor.spec.shape;
    if (shape.size() != 3) return false;
    if (tensor.kind == Kind::expert_gate_up_slab) return shape[2] != model.dims.hidden;
    return tensor.kind == Kind::expert_down_slab && shape[1] != model.dims.hidden;
  });
}

std::string slab_wire_name(const Tensor& slab, std::uint64_t expert) {
  const std::string_view projection = slab.kind == Kind::expert_down_slab ? "down_proj" : "gate_up_proj";
  return fmt::format("{}.{}.{}.weight", experts_prefix(slab), expert, projection);
}

}  // namespace refit::plan
