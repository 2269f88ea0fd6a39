// Blocks that several model families have in common. Names, shapes and their order are those of transformers'
// modeling files (huggingface/transformers, src/transformers/models/<family>/modeling_<family>.py).
#include "model/builder.hpp"

#include <fmt/format.h>

#include <utility>

namespace refit::model {
namespace {

void add_linear(Builder& out, Kind kind, const std::string& name, std::uint64_t rows, std::uint64_t cols,
                bool bias) {
  out.add(kind, name + ".weight", {rows, cols});
  if (bias) out.add(Kind::attention_bias, name + ".bias", {rows});
}

bool is_down(Kind kind) {
  return kind == Kind::mlp_down || kind == Kind::shared_down || kind == Kind::expert_down;
}

}  // namespace

void Builder::section(std::string prefix, int layer) {
  out_ = &inventory_.tensors;
  prefix_ = std::move(prefix);
  layer_ = layer;
}

void Builder::mtp_section(std::string prefix, int layer) {
  section(std::move(prefix), layer);
  out_ = &inventory_.mtp;
}

void Builder::add(Kind kind, std::string_view name, Shape shape, DType dtype, int expert) {
  std::string full;
  full.reserve(prefix_.size() + name.size());
  full.append(prefix_).append(name);
  out_->push_back({{std::move(full), std::move(shape), dtype}, kind, layer_, expert});
}

std::string layer_prefix(std::string_view base, std::uint64_t index) {
  return fmt::format("{}layers.{}.", base, index);
}

void read_layers(const Config& config, Builder& out) {
  out.dims().layers = config.number("num_hidden_layers", limits::layers);
}

void read_heads(const Config& config, Builder& out, std::string_view head_dim_field) {
  Dimensions& dims = out.dims();
  dims.heads = config.number("num_attention_heads", limits::heads);
  dims.kv_heads = config.optional_number("num_key_value_heads", limits::heads).value_or(dims.heads);
  if (dims.heads % dims.kv_heads != 0) {
    config.fail_value("num_key_value_heads",
                      fmt::format("does not divide the {} attention heads", dims.heads));
  }
  const auto head_dim = config.optional_number(head_dim_field, limits::head_dim);
  if (!head_dim && dims.hidden % dims.heads != 0) {
    config.fail(head_dim_field, fmt::format("is missing, and hidden_size {} does not divide by {} heads",
                                            dims.hidden, dims.heads));
  }
  // An explicit size wins: Qwen3-32B has 64 heads of 128 at a hidden size of 5120.
  dims.head_dim = head_dim.value_or(dims.hidden / dims.heads);
}

void read_experts(const Config& config, Builder& out, std::string_view width_field) {
  Dimensions& dims = out.dims();
  dims.experts = config.experts();
  if (dims.layers * dims.experts > limits::all_experts) {
    config.fail("num_hidden_layers", fmt::format("= {} with {} experts each makes more than {} experts",
                                                 dims.layers, dims.experts, limits::all_experts));
  }
  dims.expert_intermediate = config.number(width_field, limits::width);
}

void add_embedding(Builder& out, std::string_view base) {
  out.section(std::string(base));
  out.add(Kind::embedding, "embed_tokens.weight", {out.dims().vocab, out.dims().hidden});
}

void add_final_norm_and_head(Builder& out, std::string_view base) {
  out.section(std::string(base));
  out.add(Kind::norm, "norm.weight", {out.dims().hidden});
  out.section("");
  if (!out.dims().tied_embeddings) {
    out.add(Kind::lm_head, "lm_head.weight", {out.dims().vocab, out.dims().hidden});
  }
}

void add_layer_norms(Builder& out) {
  out.add(Kind::norm, "input_layernorm.weight", {out.dims().hidden});
  out.add(Kind::norm, "post_attention_layernorm.weight", {out.dims().hidden});
}

void add_attention(Builder& out, std::string_view block, const AttentionForm& form) {
  const Dimensions& dims = out.dims();
  const std::uint64_t q_rows = dims.heads * dims.head_dim;
  const std::uint64_t kv_rows = dims.kv_heads * dims.head_dim;
  const std::string at = std::string(block) + ".";
  add_linear(out, Kind::attention_q, at + "q_proj", q_rows * form.q_parts, dims.hidden, form.qkv_bias);
  add_linear(out, Kind::attention_k, at + "k_proj", kv_rows, dims.hidden, form.qkv_bias);
  add_linear(out, Kind::attention_v, at + "v_proj", kv_rows, dims.hidden, form.qkv_bias);
  add_linear(out, Kind::attention_o, at + "o_proj", dims.hidden, q_rows, form.o_bias);
  if (form.qk_norm) {
    out.add(Kind::norm, at + "q_norm.weight", {dims.head_dim});
    out.add(Kind::norm, at + "k_norm.weight", {dims.head_dim});
  }
}

void add_mlp(Builder& out, std::string_view block, std::span<const Projection> projections,
             std::uint64_t width, int expert) {
  const std::uint64_t hidden = out.dims().hidden;
  for (const Projection& projection : projections) {
    Shape shape = is_down(projection.kind) ? Shape{hidden, width} : Shape{width, hidden};
    out.add(projection.kind, fmt::format("{}.{}.weight", block, projection.name), std::move(shape),
            out.plain(), expert);
  }
}

void add_experts(Builder& out, std::string_view block, std::span<const Projection> projections) {
  for (std::uint64_t expert = 0; expert < out.dims().experts; ++expert) {
    add_mlp(out, fmt::format("{}.{}", block, expert), projections, out.dims().expert_intermediate,
            static_cast<int>(expert));
  }
}

void add_router(Builder& out, std::string_view block, bool correction_bias) {
  const Dimensions& dims = out.dims();
  out.add(Kind::router, fmt::format("{}.weight", block), {dims.experts, dims.hidden});
  if (correction_bias) {
    // FP32 whatever the model's dtype is: BF16 would merge the experts' biases (NVIDIA-NeMo/RL PR 3540).
    out.add(Kind::router_bias, fmt::format("{}.e_score_correction_bias", block), {dims.experts}, DType::f32);
  }
}

}  // namespace refit::model
