// Mixtral: the experts' width is intermediate_size, and their matrices are w1 (gate), w2 (down) and w3 (up).
#include "model/families.hpp"

namespace refit::model {

void build_mixtral(const Config& config, Builder& out) {
  static constexpr std::array projections{Projection{Kind::expert_gate, "w1"},
                                          Projection{Kind::expert_down, "w2"},
                                          Projection{Kind::expert_up, "w3"}};
  Dimensions& dims = out.dims();
  read_layers(config, out);
  read_heads(config, out);
  read_experts(config, out, "intermediate_size");

  add_embedding(out, "model.");
  for (std::uint64_t i = 0; i < dims.layers; ++i) {
    out.section(layer_prefix("model.", i), static_cast<int>(i));
    add_attention(out, "self_attn", {});
    add_router(out, "block_sparse_moe.gate", false);
    add_experts(out, "block_sparse_moe.experts", projections);
    add_layer_norms(out);
  }
  add_final_norm_and_head(out, "model.");
}

}  // namespace refit::model
