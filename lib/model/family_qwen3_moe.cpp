// Qwen3-MoE, and the language part of Qwen3-VL-MoE.
#include <fmt/format.h>

#include <algorithm>

#include "model/families.hpp"

namespace refit::model {
namespace {

/// Layer i has experts unless mlp_only_layers names it or decoder_sparse_step skips it
/// (transformers, modeling_qwen3_moe.py, Qwen3MoeDecoderLayer).
class SparseLayers {
 public:
  SparseLayers(const Config& config, std::uint64_t layers)
      : step_(config.optional_number("decoder_sparse_step", limits::layers).value_or(1)),
        dense_(config.numbers("mlp_only_layers", layers - 1)) {}

  [[nodiscard]] bool contains(std::uint64_t layer) const {
    return (layer + 1) % step_ == 0 && std::find(dense_.begin(), dense_.end(), layer) == dense_.end();
  }

 private:
  std::uint64_t step_;
  std::vector<std::uint64_t> dense_;
};

/// The published Qwen3-VL checkpoints store experts transposed (transformers' conversion_mapping.py turns
/// them).
void add_transposed_slabs(Builder& out) {
  const Dimensions& dims = out.dims();
  out.add(Kind::expert_gate_up_slab, "mlp.experts.gate_up_proj",
          {dims.experts, dims.hidden, 2 * dims.expert_intermediate});
  out.add(Kind::expert_down_slab, "mlp.experts.down_proj",
          {dims.experts, dims.expert_intermediate, dims.hidden});
}

void build(const Config& config, Builder& out, std::string_view base, SlabForm slabs) {
  Dimensions& dims = out.dims();
  read_layers(config, out);
  read_heads(config, out);
  read_experts(config, out);
  dims.slabs = slabs;
  const SparseLayers sparse(config, dims.layers);
  const bool bias = config.flag("attention_bias", false);

  add_embedding(out, base);
  for (std::uint64_t i = 0; i < dims.layers; ++i) {
    out.section(layer_prefix(base, i), static_cast<int>(i));
    add_attention(out, "self_attn", {.qkv_bias = bias, .o_bias = bias, .qk_norm = true});
    if (!sparse.contains(i)) {
      dims.intermediate = config.number("intermediate_size", limits::width);
      add_mlp(out, "mlp", dense_mlp, dims.intermediate);
    } else {
      add_router(out, "mlp.gate", false);
      if (slabs == SlabForm::none) {
        add_experts(out, "mlp.experts", expert_mlp);
      } else {
        add_transposed_slabs(out);
      }
    }
    add_layer_norms(out);
  }
  add_final_norm_and_head(out, base);
}

}  // namespace

void build_qwen3_moe(const Config& config, Builder& out) {
  build(config, out, "model.", SlabForm::none);
}

void build_qwen3_vl_moe(const Config& config, Builder& out) {
  build(config, out, "model.language_model.", SlabForm::columns);
}

}  // namespace refit::model
