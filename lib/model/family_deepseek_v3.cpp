// DeepSeek-V3, Kimi-K2 and Moonlight: latent attention, some dense layers first, a sigmoid router with an
// FP32 correction bias, and trailing layers for multi-token prediction.
#include "model/deepseek_layers.hpp"
#include "model/families.hpp"

namespace refit::model {
namespace {

struct Latent {
  std::uint64_t q_rank = 0;  ///< 0: queries come straight from the hidden state
  std::uint64_t kv_rank = 0, nope = 0, rope = 0, value = 0;
  bool bias = false;
};

Latent read_latent(const Config& config, Builder& out) {
  Dimensions& dims = out.dims();
  Latent latent;
  latent.q_rank = config.optional_number("q_lora_rank", limits::width).value_or(0);
  latent.kv_rank = config.number("kv_lora_rank", limits::width);
  latent.nope = config.number("qk_nope_head_dim", limits::head_dim);
  latent.rope = config.number("qk_rope_head_dim", limits::head_dim);
  latent.value = config.number("v_head_dim", limits::head_dim);
  latent.bias = config.flag("attention_bias", false);
  dims.heads = config.number("num_attention_heads", limits::heads);
  // The latent is expanded to a key and a value for every head, whatever num_key_value_heads says.
  dims.kv_heads = dims.heads;
  dims.head_dim = latent.nope + latent.rope;
  return latent;
}

/// transformers, modeling_deepseek_v3.py, DeepseekV3Attention: only what reads the hidden state or writes the
/// output has a bias.
void add_latent_attention(Builder& out, const Latent& latent) {
  const Dimensions& dims = out.dims();
  const auto biased = [&](Kind kind, const std::string& name, std::uint64_t rows, std::uint64_t cols) {
    out.add(kind, "self_attn." + name + ".weight", {rows, cols});
    if (latent.bias) out.add(Kind::attention_bias, "self_attn." + name + ".bias", {rows});
  };
  const std::uint64_t q_rows = dims.heads * dims.head_dim;
  if (latent.q_rank == 0) {
    // Not attention_q: there is no k_proj and v_proj to fuse it with.
    out.add(Kind::attention_other, "self_attn.q_proj.weight", {q_rows, dims.hidden});
  } else {
    biased(Kind::attention_other, "q_a_proj", latent.q_rank, dims.hidden);
    out.add(Kind::norm, "self_attn.q_a_layernorm.weight", {latent.q_rank});
    out.add(Kind::attention_other, "self_attn.q_b_proj.weight", {q_rows, latent.q_rank});
  }
  biased(Kind::attention_other, "kv_a_proj_with_mqa", latent.kv_rank + latent.rope, dims.hidden);
  out.add(Kind::norm, "self_attn.kv_a_layernorm.weight", {latent.kv_rank});
  out.add(Kind::attention_other, "self_attn.kv_b_proj.weight",
          {dims.heads * (latent.nope + latent.value), latent.kv_rank});
  biased(Kind::attention_o, "o_proj", dims.hidden, dims.heads * latent.value);
}

}  // namespace

void build_deepseek_v3(const Config& config, Builder& out) {
  read_layers(config, out);
  read_experts(config, out);
  const Latent latent = read_latent(config, out);
  const DeepseekMlp mlp = read_deepseek_mlp(config, out);

  const auto add_layer = [&](std::uint64_t index) {
    add_latent_attention(out, latent);
    add_deepseek_mlp(out, mlp, index);
    add_layer_norms(out);
  };
  add_deepseek_model(config, out, add_layer);
}

}  // namespace refit::model
