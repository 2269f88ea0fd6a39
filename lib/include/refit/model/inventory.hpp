// From a Hugging Face config.json to every tensor of the checkpoint: name, shape, dtype and what it is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "refit/tensor/tensor.hpp"

namespace refit::model {

/// What a tensor is for. Decides quantization, fusion in the engine and sharding.
enum class Kind : std::uint8_t {
  embedding,        ///< token embedding
  lm_head,          ///< output head (absent when tied)
  norm,             ///< any normalisation weight
  attention_q,      ///< query, key and value projections that an engine fuses to qkv
  attention_k,      //
  attention_v,      //
  attention_o,      ///< output projection
  attention_bias,   ///< any bias of an attention projection (name tells which)
  attention_other,  ///< attention tensors of other forms: latent attention (q, q_a, q_b, kv_a, kv_b), sinks,
                    ///< gated delta net
  mlp_gate,         ///< dense MLP
  mlp_up,           //
  mlp_down,         //
  shared_gate,      ///< shared expert MLP
  shared_up,        //
  shared_down,      //
  shared_router,    ///< gate of the shared expert (shared_expert_gate)
  router,           ///< expert router weight
  router_bias,      ///< expert router correction bias (FP32) or router bias
  expert_gate,      ///< one routed expert's projection
  expert_up,        //
  expert_down,      //
  expert_gate_up_slab,  ///< all routed experts of a layer in one tensor, see SlabForm
  expert_down_slab,     //
  expert_bias_slab,     ///< per-expert biases in one tensor (gpt-oss)
  mamba,                ///< state-space tensors (A_log, D, dt_bias, conv1d, in_proj, out_proj)
  mtp_other,  ///< tensors only a multi-token-prediction layer has (eh_proj, enorm, hnorm, shared head)
};
[[nodiscard]] std::string_view name_of(Kind kind) noexcept;

struct Tensor {
  TensorSpec spec;
  Kind kind = Kind::norm;
  int layer = -1;   ///< index in the checkpoint's names, -1 outside the layers
  int expert = -1;  ///< routed expert index, -1 elsewhere
};

/// How a checkpoint stores the routed experts of a layer, with H the hidden and I the expert width.
enum class SlabForm : std::uint8_t {
  none,                 ///< one tensor for each expert and projection, each [out, in]
  rows,                 ///< gate_up [E, 2I, H], gate rows first, and down [E, H, I]
  columns,              ///< transposed: gate_up [E, H, 2I], gate columns first, and down [E, I, H]
  columns_interleaved,  ///< transposed, with gate in the even and up in the odd columns of gate_up
};

/// Sizes that layouts need. 0 or empty where the model has no such thing.
struct Dimensions {
  std::uint64_t hidden = 0, layers = 0, vocab = 0;
  std::uint64_t heads = 0, kv_heads = 0, head_dim = 0;  ///< latent attention: head_dim of query and key
  std::uint64_t intermediate = 0;                       ///< dense MLP width
  std::uint64_t experts = 0, expert_intermediate = 0, shared_experts = 0;
  bool gated_experts = true;        ///< false for squared-ReLU experts (Nemotron-H): up and down only
  SlabForm slabs = SlabForm::none;  ///< shapes alone do not tell: gpt-oss has H = I
  bool tied_embeddings = false;
};

struct Inventory {
  std::string architecture;  ///< e.g. "Qwen3MoeForCausalLM"
  std::string model_type;    ///< e.g. "qwen3_moe"
  Dimensions dims;
  std::vector<Tensor> tensors;  ///< in the model's order: embedding, layers in numeric order, norm, head
  std::vector<Tensor> mtp;      ///< multi-token-prediction tensors, not counted below
  [[nodiscard]] std::uint64_t parameters() const;    ///< elements of `tensors`
  [[nodiscard]] std::uint64_t bytes() const;         ///< bytes of `tensors`
  [[nodiscard]] std::uint64_t expert_bytes() const;  ///< of these, routed experts
  [[nodiscard]] bool moe() const noexcept { return dims.experts > 0; }
};

/// Reads `path`, a config.json or a directory that holds one. Throws Error(input) naming the file and the
/// field for anything unusable, and the architecture by name when it is not one of supported_architectures().
[[nodiscard]] Inventory load_inventory(const std::string& path);

/// The same from text; `place` names it in messages.
[[nodiscard]] Inventory parse_inventory(std::string_view config_json, const std::string& place);

[[nodiscard]] std::vector<std::string_view> supported_architectures();

/// The part of a model that a replay moves: `layers` whole layers chosen so that each kind of layer is
/// present evenly, always with embeddings, final norm and head; `experts` > 0 keeps only that many experts of
/// each layer; `vocab_rows` > 0 keeps only that many rows of embedding and head. 0, or more than there are,
/// keeps all. The router keeps its full size, names keep their numbers, and `dims` tells what was kept. `mtp`
/// stays as it is.
struct Slice {
  std::uint64_t layers = 0, experts = 0, vocab_rows = 0;
  [[nodiscard]] bool whole() const noexcept { return layers == 0 && experts == 0 && vocab_rows == 0; }
};
[[nodiscard]] Inventory slice(const Inventory& model, const Slice& part);

/// Layers that hold the same kinds of tensors form a class (dense, MoE, Mamba, attention ...): the classes'
/// sizes.
[[nodiscard]] std::vector<std::vector<int>> layer_classes(const Inventory& model);

}  // namespace refit::model
