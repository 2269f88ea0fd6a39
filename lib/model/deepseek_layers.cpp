// Layers of DeepSeek-V3 and the families built after it. transformers, modeling_deepseek_v3.py and
// modeling_glm4_moe.py; multi-token prediction as DeepSeek-V3's model.safetensors.index.json names it.
#include "model/deepseek_layers.hpp"

namespace refit::model {

DeepseekMlp read_deepseek_mlp(const Config& config, Builder& out) {
  Dimensions& dims = out.dims();
  DeepseekMlp mlp;
  mlp.first_dense = config.number("first_k_dense_replace", dims.layers, 0);
  mlp.frequency = config.optional_number("moe_layer_freq", limits::layers).value_or(1);
  dims.shared_experts = config.number("n_shared_experts", limits::few, 0);
  // All shared experts are one MLP of their joint width.
  mlp.shared_width = dims.shared_experts * dims.expert_intermediate;
  // The checkpoint's own modeling_deepseek.py has the bias for this method only; newer files name none.
  mlp.correction_bias = config.text("topk_method").value_or("noaux_tc") == "noaux_tc";
  for (std::uint64_t i = 0; i < dims.layers; ++i) {
    if (mlp.dense(i)) dims.intermediate = config.number("intermediate_size", limits::width);
  }
  return mlp;
}

void add_deepseek_mlp(Builder& out, const DeepseekMlp& mlp, std::uint64_t layer) {
  if (mlp.dense(layer)) {
    add_mlp(out, "mlp", dense_mlp, out.dims().intermediate);
    return;
  }
  add_experts(out, "mlp.experts", expert_mlp);
  add_router(out, "mlp.gate", mlp.correction_bias);
  if (mlp.shared_width > 0) add_mlp(out, "mlp.shared_experts", shared_mlp, mlp.shared_width);
}

void add_deepseek_model(const Config& config, Builder& out,
                        const std::function<void(std::uint64_t index)>& add_layer) {
  const Dimensions& dims = out.dims();
  add_embedding(out, "model.");
  for (std::uint64_t i = 0; i < dims.layers; ++i) {
    out.section(layer_prefix("model.", i), static_cast<int>(i));
    add_layer(i);
  }
  add_final_norm_and_head(out, "model.");
  const std::uint64_t count = config.optional_number("num_nextn_predict_layers", limits::few, 0).value_or(0);
  for (std::uint64_t i = dims.layers; i < dims.layers + count; ++i) {
    out.mtp_section(layer_prefix("model.", i), static_cast<int>(i));
    out.add(Kind::mtp_other, "embed_tokens.weight", {dims.vocab, dims.hidden});
    out.add(Kind::mtp_other, "enorm.weight", {dims.hidden});
    out.add(Kind::mtp_other, "hnorm.weight", {dims.hidden});
    out.add(Kind::mtp_other, "eh_proj.weight", {dims.hidden, 2 * dims.hidden});
    add_layer(i);
    out.add(Kind::mtp_other, "shared_head.norm.weight", {dims.hidden});
    out.add(Kind::mtp_other, "shared_head.head.weight", {dims.vocab, dims.hidden});
  }
}

}  // namespace refit::model
