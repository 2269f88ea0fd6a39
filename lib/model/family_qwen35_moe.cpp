// Qwen3.5-MoE: gated delta net layers with full attention between them, fused experts and a gated shared
// expert. Names and shapes: transformers, modeling_qwen3_5_moe.py; prefixes as in the published checkpoints.
#include <fmt/format.h>

#include "model/families.hpp"

namespace refit::model {
namespace {

struct DeltaNet {
  std::uint64_t key = 0, value = 0;  ///< rows of all key heads, of all value heads
  std::uint64_t value_heads = 0, value_head_dim = 0, kernel = 0;
};

DeltaNet read_delta_net(const Config& config) {
  DeltaNet net;
  const std::uint64_t key_heads = config.number("linear_num_key_heads", limits::heads);
  net.value_heads = config.number("linear_num_value_heads", limits::heads);
  if (net.value_heads % key_heads != 0) {
    config.fail_value("linear_num_key_heads",
                      fmt::format("does not divide the {} value heads", net.value_heads));
  }
  net.value_head_dim = config.number("linear_value_head_dim", limits::head_dim);
  net.key = key_heads * config.number("linear_key_head_dim", limits::head_dim);
  net.value = net.value_heads * net.value_head_dim;
  net.kernel = config.number("linear_conv_kernel_dim", limits::head_dim);
  return net;
}

void add_delta_net(Builder& out, const DeltaNet& net) {
  const std::uint64_t hidden = out.dims().hidden;
  const std::uint64_t qkv = 2 * net.key + net.value;
  out.add(Kind::attention_other, "linear_attn.dt_bias", {net.value_heads});
  // Qwen3.5's checkpoints have A_log and the norm in FP32 (modelscope/ms-swift PR 9972). Qwen3.6's have them
  // in BF16 (vllm-project/vllm PR 51836) under the same configuration: there a checkpoint's own header
  // decides.
  out.add(Kind::attention_other, "linear_attn.A_log", {net.value_heads}, DType::f32);
  out.add(Kind::attention_other, "linear_attn.conv1d.weight", {qkv, 1, net.kernel});
  out.add(Kind::norm, "linear_attn.norm.weight", {net.value_head_dim}, DType::f32);
  out.add(Kind::attention_other, "linear_attn.out_proj.weight", {hidden, net.value});
  out.add(Kind::attention_other, "linear_attn.in_proj_qkv.weight", {qkv, hidden});
  out.add(Kind::attention_other, "linear_attn.in_proj_z.weight", {net.value, hidden});
  out.add(Kind::attention_other, "linear_attn.in_proj_b.weight", {net.value_heads, hidden});
  out.add(Kind::attention_other, "linear_attn.in_proj_a.weight", {net.value_heads, hidden});
}

/// For each layer whether its attention is a full one: a list of kinds, or else every n-th layer.
std::vector<bool> full_attention_layers(const Config& config, std::uint64_t layers) {
  const std::uint64_t interval =
      config.optional_number("full_attention_interval", limits::layers).value_or(4);
  std::vector<bool> full(layers);
  for (std::uint64_t i = 0; i < layers; ++i) full[i] = (i + 1) % interval == 0;
  const std::vector<std::string> types = config.texts("layer_types");
  if (types.empty()) return full;
  if (types.size() != layers) {
    config.fail("layer_types", fmt::format("has {} entries for {} layers", types.size(), layers));
  }
  for (std::uint64_t i = 0; i < layers; ++i) {
    full[i] = types[i] == "full_attention";
    if (!full[i] && types[i] != "linear_attention") {
      config.fail("layer_types", fmt::format("holds {}, which is neither full_attention nor linear_attention",
                                             json_quoted(types[i])));
    }
  }
  return full;
}

void add_experts_and_norms(Builder& out, std::uint64_t shared_width) {
  const Dimensions& dims = out.dims();
  const std::uint64_t width = dims.expert_intermediate;
  add_router(out, "mlp.gate", false);
  out.add(Kind::expert_gate_up_slab, "mlp.experts.gate_up_proj", {dims.experts, 2 * width, dims.hidden});
  out.add(Kind::expert_down_slab, "mlp.experts.down_proj", {dims.experts, dims.hidden, width});
  add_mlp(out, "mlp.shared_expert", shared_mlp, shared_width);
  out.add(Kind::shared_router, "mlp.shared_expert_gate.weight", {1, dims.hidden});
  add_layer_norms(out);
}

}  // namespace

void build_qwen35_moe(const Config& config, Builder& out) {
  config.refuse_if_given({"mlp_only_layers", "mtp_use_dedicated_embeddings"});
  const std::string base = "model.language_model.";
  Dimensions& dims = out.dims();
  read_layers(config, out);
  read_heads(config, out);
  read_experts(config, out);
  dims.slabs = SlabForm::rows;
  dims.shared_experts = 1;
  const DeltaNet net = read_delta_net(config);
  const std::vector<bool> full = full_attention_layers(config, dims.layers);
  const std::uint64_t shared_width = config.number("shared_expert_intermediate_size", limits::width);
  const bool bias = config.flag("attention_bias", false);
  const AttentionForm attention{.qkv_bias = bias,
                                .o_bias = bias,
                                .qk_norm = true,
                                .q_parts = config.flag("attn_output_gate", true) ? 2u : 1u};

  add_embedding(out, base);
  for (std::uint64_t i = 0; i < dims.layers; ++i) {
    out.section(layer_prefix(base, i), static_cast<int>(i));
    if (full[i]) {
      add_attention(out, "self_attn", attention);
    } else {
      add_delta_net(out, net);
    }
    add_experts_and_norms(out, shared_width);
  }
  add_final_norm_and_head(out, base);

  const std::uint64_t mtp = config.optional_number("mtp_num_hidden_layers", limits::few, 0).value_or(0);
  if (mtp == 0) return;
  out.mtp_section("mtp.");
  out.add(Kind::mtp_other, "fc.weight", {dims.hidden, 2 * dims.hidden});
  for (std::uint64_t i = 0; i < mtp; ++i) {
    out.mtp_section(layer_prefix("mtp.", i), static_cast<int>(i));
    add_attention(out, "self_attn", attention);
    add_experts_and_norms(out, shared_width);
  }
  out.mtp_section("mtp.");
  for (const std::string_view name :
       {"norm.weight", "pre_fc_norm_embedding.weight", "pre_fc_norm_hidden.weight"}) {
    out.add(Kind::mtp_other, name, {dims.hidden});
  }
}

}  // namespace refit::model
