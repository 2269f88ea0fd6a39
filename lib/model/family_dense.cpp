// Dense models: Llama; Mistral, which has the same tensors; Qwen2, with biases; Qwen3, with norms of query
// and key.
#include "model/families.hpp"

namespace refit::model {
namespace {

void build_dense(const Config& config, Builder& out, const AttentionForm& attention) {
  config.refuse_experts(out.architecture());
  config.refuse_if_given({"mlp_bias"});
  Dimensions& dims = out.dims();
  read_layers(config, out);
  read_heads(config, out);
  dims.intermediate = config.number("intermediate_size", limits::width);

  add_embedding(out, "model.");
  for (std::uint64_t i = 0; i < dims.layers; ++i) {
    out.section(layer_prefix("model.", i), static_cast<int>(i));
    add_attention(out, "self_attn", attention);
    add_mlp(out, "mlp", dense_mlp, dims.intermediate);
    add_layer_norms(out);
  }
  add_final_norm_and_head(out, "model.");
}

}  // namespace

void build_llama(const Config& config, Builder& out) {
  const bool bias = config.flag("attention_bias", false);
  build_dense(config, out, {.qkv_bias = bias, .o_bias = bias});
}

void build_qwen2(const Config& config, Builder& out) {
  build_dense(config, out, {.qkv_bias = true});
}

void build_qwen3(const Config& config, Builder& out) {
  const bool bias = config.flag("attention_bias", false);
  build_dense(config, out, {.qkv_bias = bias, .o_bias = bias, .qk_norm = true});
}

}  // namespace refit::model
