// gpt-oss in its BF16 form: fused experts with biases, attention sinks. transformers, modeling_gpt_oss.py.
#include "model/families.hpp"

namespace refit::model {
namespace {

/// Each matrix is [in, out], and gate and up are the even and odd columns of gate_up_proj
/// (GptOssExperts.forward).
void add_expert_slabs(Builder& out) {
  const Dimensions& dims = out.dims();
  const std::uint64_t width = dims.expert_intermediate;
  out.add(Kind::expert_gate_up_slab, "mlp.experts.gate_up_proj", {dims.experts, dims.hidden, 2 * width});
  out.add(Kind::expert_bias_slab, "mlp.experts.gate_up_proj_bias", {dims.experts, 2 * width});
  out.add(Kind::expert_down_slab, "mlp.experts.down_proj", {dims.experts, width, dims.hidden});
  out.add(Kind::expert_bias_slab, "mlp.experts.down_proj_bias", {dims.experts, dims.hidden});
}

}  // namespace

void build_gpt_oss(const Config& config, Builder& out) {
  Dimensions& dims = out.dims();
  read_layers(config, out);
  read_heads(config, out);
  read_experts(config, out, "intermediate_size");
  dims.slabs = SlabForm::columns_interleaved;
  const bool bias = config.flag("attention_bias", true);

  add_embedding(out, "model.");
  for (std::uint64_t i = 0; i < dims.layers; ++i) {
    out.section(layer_prefix("model.", i), static_cast<int>(i));
    out.add(Kind::attention_other, "self_attn.sinks", {dims.heads});
    add_attention(out, "self_attn", {.qkv_bias = bias, .o_bias = bias});
    add_router(out, "mlp.router", false);
    out.add(Kind::router_bias, "mlp.router.bias", {dims.experts});
    add_expert_slabs(out);
    add_layer_norms(out);
  }
  add_final_norm_and_head(out, "model.");
}

}  // namespace refit::model
