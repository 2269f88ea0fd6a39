// One function for each group of kinds.
#include "reshard/megatron_names.hpp"

#include <fmt/format.h>

#include <string_view>

#include "model/module_name.hpp"

namespace refit::reshard {
namespace {

using model::Kind;
using model::Tensor;

/// "input_layernorm.weight" of "model.layers.3.input_layernorm.weight".
std::string_view inside_layer(std::string_view name) {
  constexpr std::string_view layers = "layers.";
  const std::size_t begin = name.find(layers);
  if (begin == name.npos) return name;
  const std::size_t dot = name.find('.', begin + layers.size());
  return dot == name.npos ? name : name.substr(dot + 1);
}

/// Inside "decoder.layers.N."; empty where none is known.
std::string_view norm(const Tensor& tensor, const LayerContents& layer) {
  const std::string_view name = inside_layer(tensor.spec.name);
  constexpr std::string_view of_qkv = "self_attention.linear_qkv.layer_norm_weight";
  constexpr std::string_view of_fc1 = "mlp.linear_fc1.layer_norm_weight";
  constexpr std::string_view of_experts = "pre_mlp_layernorm.weight";
  if (name == "input_layernorm.weight") {
    if (layer.qkv) return of_qkv;
    return layer.latent ? "input_layernorm.weight" : "";
  }
  if (name == "post_attention_layernorm.weight") return layer.experts ? of_experts : of_fc1;
  if (name == "norm.weight") {  // Nemotron-H: of the layer, whatever it is
    if (layer.qkv) return of_qkv;
    if (layer.experts) return of_experts;
    return layer.mlp ? of_fc1 : "";
  }
  if (name == "self_attn.q_norm.weight") return "self_attention.q_layernorm.weight";
  if (name == "self_attn.k_norm.weight") return "self_attention.k_layernorm.weight";
  if (name == "self_attn.q_a_layernorm.weight") return "self_attention.linear_q_up_proj.layer_norm_weight";
  if (name == "self_attn.kv_a_layernorm.weight") return "self_attention.linear_kv_up_proj.layer_norm_weight";
  return {};
}

/// The linear layer of a projection that is not a part of linear_qkv.
std::string_view projection(std::string_view module) {
  if (module == "o_proj") return "linear_proj";
  if (module == "q_proj") return "linear_q_proj";
  if (module == "q_a_proj") return "linear_q_down_proj";
  if (module == "q_b_proj") return "linear_q_up_proj";
  if (module == "kv_a_proj_with_mqa") return "linear_kv_down_proj";
  if (module == "kv_b_proj") return "linear_kv_up_proj";
  return {};
}

std::uint32_t qkv_part(std::string_view module) {
  return module == "q_proj" ? 0 : module == "k_proj" ? 1 : 2;
}

/// The place with a name inside "decoder.layers.N.", or with an empty one.
MegatronPlace attention(const Tensor& tensor) {
  const std::string_view name = tensor.spec.name, module = model::module_of(name);
  const std::string_view suffix = name.substr(name.rfind('.') + 1);
  const bool bias_of_qkv =
      tensor.kind == Kind::attention_bias && (module == "q_proj" || module == "k_proj" || module == "v_proj");
  if (bias_of_qkv || tensor.kind == Kind::attention_q || tensor.kind == Kind::attention_k ||
      tensor.kind == Kind::attention_v) {
    return {fmt::format("self_attention.linear_qkv.{}", suffix), Fusion::qkv, qkv_part(module)};
  }
  if (module == "self_attn" && suffix == "sinks") return {"self_attention.core_attention.softmax_offset"};
  const std::string_view linear = projection(module);
  if (linear.empty()) return {};
  return {fmt::format("self_attention.{}.{}", linear, suffix)};
}

MegatronPlace inside_place(const Tensor& tensor, const LayerContents& layer, const model::Dimensions& dims,
                           std::uint64_t expert) {
  switch (tensor.kind) {
    case Kind::norm:
      return {std::string(norm(tensor, layer))};
    case Kind::attention_q:
    case Kind::attention_k:
    case Kind::attention_v:
    case Kind::attention_o:
    case Kind::attention_bias:
    case Kind::attention_other:
      return attention(tensor);
    case Kind::mlp_gate:
      return {"mlp.linear_fc1.weight", Fusion::gate_up, 0};
    case Kind::mlp_up:
      return {"mlp.linear_fc1.weight", Fusion::gate_up, 1};
    case Kind::mlp_down:
      return {"mlp.linear_fc2.weight"};
    case Kind::shared_gate:
      return {"mlp.shared_experts.linear_fc1.weight", Fusion::gate_up, 0};
    case Kind::shared_up:
      return {"mlp.shared_experts.linear_fc1.weight", Fusion::gate_up, 1};
    case Kind::shared_down:
      return {"mlp.shared_experts.linear_fc2.weight"};
    case Kind::shared_router:
      return {"mlp.shared_experts.gate_weight"};
    case Kind::router:
      return {"mlp.router.weight"};
    case Kind::router_bias:  // a correction of the choice of experts, or a bias of the linear layer (gpt-oss)
      return {tensor.spec.name.ends_with(".e_score_correction_bias") ? "mlp.router.expert_bias"
                                                                     : "mlp.router.bias"};
    case Kind::expert_gate:
      return {fmt::format("mlp.experts.linear_fc1.weight{}", expert), Fusion::gate_up, 0};
    case Kind::expert_up:
      return {fmt::format("mlp.experts.linear_fc1.weight{}", expert), Fusion::gate_up, 1};
    case Kind::expert_down:
      return {fmt::format("mlp.experts.linear_fc2.weight{}", expert)};
    case Kind::expert_gate_up_slab:
    case Kind::expert_down_slab:
      if (dims.slabs != model::SlabForm::rows) return {};
      return {tensor.kind == Kind::expert_down_slab ? "mlp.experts.linear_fc2.weight"
                                                    : "mlp.experts.linear_fc1.weight",
              Fusion::slab};
    case Kind::embedding:
    case Kind::lm_head:
    case Kind::expert_bias_slab:
    case Kind::mamba:
    case Kind::mtp_other:
      return {};
  }
  return {};
}

}  // namespace

std::vector<LayerContents> layer_contents(const model::Inventory& model) {
  std::vector<LayerContents> layers;
  for (const Tensor& tensor : model.tensors) {
    if (tensor.layer < 0) continue;
    const auto index = static_cast<std::size_t>(tensor.layer);
    if (index >= layers.size()) layers.resize(index + 1);
    LayerContents& layer = layers[index];
    layer.qkv |= tensor.kind == Kind::attention_q;
    layer.latent |= model::module_of(tensor.spec.name) == "kv_b_proj";
    layer.experts |= tensor.kind == Kind::router;
    layer.mlp |= tensor.kind == Kind::mlp_up;
  }
  return layers;
}

MegatronPlace megatron_place(const Tensor& tensor, const LayerContents& layer, const model::Dimensions& dims,
                             const LocalNumbers& numbers) {
  const std::string& name = tensor.spec.name;
  if (tensor.kind == Kind::lm_head) return {"output_layer.weight"};
  if (tensor.kind == Kind::embedding) {
    return {numbers.output_copy ? "output_layer.weight" : "embedding.word_embeddings.weight"};
  }
  if (tensor.layer < 0) {  // Megatron's hybrid stack calls its last norm otherwise than its GPT does
    return {name.ends_with("norm_f.weight") ? "decoder.final_norm.weight" : "decoder.final_layernorm.weight"};
  }
  MegatronPlace place = inside_place(tensor, layer, dims, numbers.expert);
  place.name = place.name.empty() ? name : fmt::format("decoder.layers.{}.{}", numbers.layer, place.name);
  return place;
}

}  // namespace refit::reshard
