// Megatron-Core's names for the checkpoint's tensors (Transformer Engine layers, TEGroupedMLP).
// Source: NVIDIA-NeMo/Megatron-Bridge, models/{qwen,deepseek,glm,nemotronh,gpt_oss}/*_bridge.py.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "refit/model/inventory.hpp"

namespace refit::reshard {

/// What a layer has tells which linear layer its norms are fused with.
struct LayerContents {
  bool qkv = false;      ///< attention whose query, key and value are one linear layer
  bool latent = false;   ///< latent attention
  bool experts = false;  ///< routed experts
  bool mlp = false;      ///< a dense MLP
};
[[nodiscard]] std::vector<LayerContents> layer_contents(const model::Inventory& model);

/// How tensors of the checkpoint become one of Megatron's.
enum class Fusion : std::uint8_t {
  none,
  qkv,      ///< of each key-value head: its query heads, key, value
  gate_up,  ///< gate rows above up rows
  slab,     ///< a slab of all experts becomes a tensor for each
};

struct MegatronPlace {
  std::string name;  ///< of a slab: without the expert's number
  Fusion fusion = Fusion::none;
  std::uint32_t part = 0;  ///< which part of a fused tensor
};

/// Where one rank keeps things.
struct LocalNumbers {
  std::uint32_t layer = 0;   ///< index among the layers of the stage
  std::uint64_t expert = 0;  ///< index among the experts of the rank
  bool output_copy = false;  ///< the last stage of several: a tied embedding is the output layer's weight
};

/// Tensors of kinds whose Megatron form is not known here (Mamba, delta nets, transposed slabs) keep the
/// checkpoint's name and form.
[[nodiscard]] MegatronPlace megatron_place(const model::Tensor& tensor, const LayerContents& layer,
                                           const model::Dimensions& dims, const LocalNumbers& numbers);

}  // namespace refit::reshard
