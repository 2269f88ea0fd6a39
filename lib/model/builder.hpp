// Collects the tensors of an inventory, and the blocks that several model families have in common.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "model/config.hpp"
#include "refit/model/inventory.hpp"

namespace refit::model {

class Builder {
 public:
  Builder(Inventory& inventory, DType plain) : inventory_(inventory), plain_(plain) {}

  [[nodiscard]] Dimensions& dims() noexcept { return inventory_.dims; }
  [[nodiscard]] const std::string& architecture() const noexcept { return inventory_.architecture; }

  /// Tensors added from here on have names that begin with `prefix` and belong to `layer`.
  void section(std::string prefix, int layer = -1);
  /// The same, into Inventory::mtp.
  void mtp_section(std::string prefix, int layer = -1);

  void add(Kind kind, std::string_view name, Shape shape) { add(kind, name, std::move(shape), plain_); }
  void add(Kind kind, std::string_view name, Shape shape, DType dtype, int expert = -1);
  [[nodiscard]] DType plain() const noexcept { return plain_; }

 private:
  Inventory& inventory_;
  DType plain_;
  std::vector<Tensor>* out_ = &inventory_.tensors;
  std::string prefix_;
  int layer_ = -1;
};

/// "<base>layers.<index>."
[[nodiscard]] std::string layer_prefix(std::string_view base, std::uint64_t index);

/// dims.layers from num_hidden_layers.
void read_layers(const Config& config, Builder& out);

/// dims.heads, kv_heads (all heads when not given) and head_dim (the field that is given, or hidden / heads).
void read_heads(const Config& config, Builder& out, std::string_view head_dim_field = "head_dim");

/// dims.experts and, from `width_field`, dims.expert_intermediate. Needs dims.layers.
void read_experts(const Config& config, Builder& out, std::string_view width_field = "moe_intermediate_size");

/// Embedding, final norm and, unless tied, the head: `base` is "model." or another root of the layers.
void add_embedding(Builder& out, std::string_view base);
void add_final_norm_and_head(Builder& out, std::string_view base);

void add_layer_norms(Builder& out);

struct AttentionForm {
  bool qkv_bias = false, o_bias = false;
  bool qk_norm = false;       ///< one norm weight of head_dim for all query heads, one for all key heads
  std::uint64_t q_parts = 1;  ///< 2 where q_proj also makes an output gate
};
void add_attention(Builder& out, std::string_view block, const AttentionForm& form);

/// One matrix of an MLP: its name in the checkpoint and, by its kind, its shape.
struct Projection {
  Kind kind;
  std::string_view name;
};
inline constexpr std::array dense_mlp{Projection{Kind::mlp_gate, "gate_proj"},
                                      Projection{Kind::mlp_up, "up_proj"},
                                      Projection{Kind::mlp_down, "down_proj"}};
inline constexpr std::array shared_mlp{Projection{Kind::shared_gate, "gate_proj"},
                                       Projection{Kind::shared_up, "up_proj"},
                                       Projection{Kind::shared_down, "down_proj"}};
inline constexpr std::array expert_mlp{Projection{Kind::expert_gate, "gate_proj"},
                                       Projection{Kind::expert_up, "up_proj"},
                                       Projection{Kind::expert_down, "down_proj"}};
void add_mlp(Builder& out, std::string_view block, std::span<const Projection> projections,
             std::uint64_t width, int expert = -1);
/// All routed experts of a layer, "<block>.<expert>.<projection>.weight".
void add_experts(Builder& out, std::string_view block, std::span<const Projection> projections);
/// The router's weight and, where the family has one, its correction bias.
void add_router(Builder& out, std::string_view block, bool correction_bias);

}  // namespace refit::model
