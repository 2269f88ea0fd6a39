// GLM-4.5-MoE: grouped-query attention in front of DeepSeek-V3's kind of experts.
#include "model/deepseek_layers.hpp"
#include "model/families.hpp"

namespace refit::model {

void build_glm4_moe(const Config& config, Builder& out) {
  read_layers(config, out);
  read_heads(config, out);
  read_experts(config, out);
  const DeepseekMlp mlp = read_deepseek_mlp(config, out);
  // transformers, modeling_glm4_moe.py, Glm4MoeAttention: o_proj never has a bias.
  const AttentionForm attention{.qkv_bias = config.flag("attention_bias", false),
                                .qk_norm = config.flag("use_qk_norm", false)};

  const auto add_layer = [&](std::uint64_t index) {
    add_attention(out, "self_attn", attention);
    add_deepseek_mlp(out, mlp, index);
    add_layer_norms(out);
  };
  add_deepseek_model(config, out, add_layer);
}

}  // namespace refit::model
