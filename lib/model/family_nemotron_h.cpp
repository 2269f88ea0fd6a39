// Nemotron-H: every layer is one of Mamba-2, attention, experts or a dense MLP, as a pattern string or list
// says. Names and shapes: transformers, modeling_nemotron_h.py; published checkpoints keep "backbone.".
#include <fmt/format.h>

#include "model/families.hpp"

namespace refit::model {
namespace {

struct Mamba {
  std::uint64_t heads = 0, inner = 0, conv = 0, kernel = 0;
  bool conv_bias = true, bias = false;
};

Mamba read_mamba(const Config& config) {
  Mamba mamba;
  mamba.heads = config.number("mamba_num_heads", limits::heads);
  mamba.inner = mamba.heads * config.number("mamba_head_dim", limits::head_dim);
  const std::uint64_t groups = config.number("n_groups", limits::heads);
  if (mamba.heads % groups != 0) {
    config.fail_value("n_groups", fmt::format("does not divide the {} Mamba heads", mamba.heads));
  }
  mamba.conv = mamba.inner + 2 * groups * config.number("ssm_state_size", limits::head_dim);
  mamba.kernel = config.number("conv_kernel", limits::head_dim);
  mamba.conv_bias = config.flag("use_conv_bias", true);
  mamba.bias = config.flag("use_bias", false);
  return mamba;
}

void add_mamba(Builder& out, const Mamba& mamba) {
  const std::uint64_t hidden = out.dims().hidden;
  const std::uint64_t in_rows = mamba.inner + mamba.conv + mamba.heads;
  // The published checkpoints keep these three in FP32 (radixark/miles PR 1546).
  for (const std::string_view name : {"mixer.dt_bias", "mixer.A_log", "mixer.D"}) {
    out.add(Kind::mamba, name, {mamba.heads}, DType::f32);
  }
  out.add(Kind::mamba, "mixer.conv1d.weight", {mamba.conv, 1, mamba.kernel});
  if (mamba.conv_bias) out.add(Kind::mamba, "mixer.conv1d.bias", {mamba.conv});
  out.add(Kind::mamba, "mixer.in_proj.weight", {in_rows, hidden});
  if (mamba.bias) out.add(Kind::mamba, "mixer.in_proj.bias", {in_rows});
  out.add(Kind::norm, "mixer.norm.weight", {mamba.inner});
  out.add(Kind::mamba, "mixer.out_proj.weight", {hidden, mamba.inner});
  if (mamba.bias) out.add(Kind::mamba, "mixer.out_proj.bias", {hidden});
}

/// One letter a layer, as hybrid_override_pattern has them; newer files spell the kinds out in a list.
std::string read_pattern(const Config& config, std::string_view pattern_field, std::string_view list_field,
                         std::uint64_t most) {
  std::string pattern = config.text(pattern_field).value_or("");
  const std::string_view field = pattern.empty() ? list_field : pattern_field;
  for (const std::string& kind : pattern.empty() ? config.texts(list_field) : std::vector<std::string>{}) {
    if (kind == "mamba" || kind == "linear_attention") {
      pattern += 'M';
    } else if (kind == "attention" || kind == "full_attention") {
      pattern += '*';
    } else if (kind == "moe") {
      pattern += 'E';
    } else if (kind == "mlp") {
      pattern += '-';
    } else {
      config.fail(field, fmt::format("holds {}, which is no kind of layer", json_quoted(kind)));
    }
  }
  if (pattern.empty()) config.fail(pattern_field, fmt::format("is missing, and so is {}", list_field));
  if (pattern.size() > most) {
    config.fail(field, fmt::format("has {} layers, more than {}", pattern.size(), most));
  }
  if (pattern.find_first_not_of("M*E-") != pattern.npos) {
    config.fail_value(field, "has letters other than M (Mamba), * (attention), E (experts) and - (MLP)");
  }
  return pattern;
}

class Layers {
 public:
  /// Reads what the kinds of layer in `pattern` need, and nothing else.
  Layers(const Config& config, Builder& out, const std::string& pattern) : out_(out) {
    Dimensions& dims = out.dims();
    const auto has = [&](char kind) { return pattern.find(kind) != pattern.npos; };
    if (has('M')) mamba_ = read_mamba(config);
    if (has('*')) {
      // Older Nemotron-H files say attention_head_dim.
      read_heads(config, out, config.has("head_dim") ? "head_dim" : "attention_head_dim");
      attention_bias_ = config.flag("attention_bias", false);
    }
    if (has('-')) dims.intermediate = config.number("intermediate_size", limits::width);
    if (!has('E')) return;
    read_experts(config, out);
    dims.gated_experts = false;
    dims.shared_experts = config.number("n_shared_experts", limits::few, 0);
    // One MLP of this width, however many experts it stands for.
    if (dims.shared_experts > 0) {
      shared_width_ = config.number("moe_shared_expert_intermediate_size", limits::width);
    }
  }

  void add(char kind) const {
    static constexpr std::array mlp{Projection{Kind::mlp_up, "up_proj"},
                                    Projection{Kind::mlp_down, "down_proj"}};
    static constexpr std::array expert{Projection{Kind::expert_up, "up_proj"},
                                       Projection{Kind::expert_down, "down_proj"}};
    static constexpr std::array shared{Projection{Kind::shared_up, "up_proj"},
                                       Projection{Kind::shared_down, "down_proj"}};
    out_.add(Kind::norm, "norm.weight", {out_.dims().hidden});
    switch (kind) {
      case 'M':
        add_mamba(out_, mamba_);
        break;
      case '*':
        add_attention(out_, "mixer", {.qkv_bias = attention_bias_, .o_bias = attention_bias_});
        break;
      case '-':
        add_mlp(out_, "mixer", mlp, out_.dims().intermediate);
        break;
      default:
        add_experts(out_, "mixer.experts", expert);
        add_router(out_, "mixer.gate", true);
        if (shared_width_ > 0) add_mlp(out_, "mixer.shared_experts", shared, shared_width_);
    }
  }

 private:
  Builder& out_;
  Mamba mamba_;
  bool attention_bias_ = false;
  std::uint64_t shared_width_ = 0;
};

/// mtp.layers.0 begins with the norms and the projection that join embedding and hidden state, the last one
/// ends with a norm (names as in Nemotron-3-Super's checkpoint).
void add_mtp(Builder& out, const Layers& layers, const std::string& pattern) {
  const std::uint64_t hidden = out.dims().hidden;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    out.mtp_section(layer_prefix("mtp.", i), static_cast<int>(i));
    if (i == 0) {
      out.add(Kind::mtp_other, "enorm.weight", {hidden});
      out.add(Kind::mtp_other, "hnorm.weight", {hidden});
      out.add(Kind::mtp_other, "eh_proj.weight", {hidden, 2 * hidden});
    }
    layers.add(pattern[i]);
    if (i + 1 == pattern.size()) out.add(Kind::mtp_other, "final_layernorm.weight", {hidden});
  }
}

}  // namespace

void build_nemotron_h(const Config& config, Builder& out) {
  // With a latent size the experts read a narrower space through two more projections (Nemotron-3-Super).
  config.refuse_if_given({"mlp_bias", "moe_latent_size"});
  Dimensions& dims = out.dims();
  const std::string pattern =
      read_pattern(config, "hybrid_override_pattern", "layers_block_type", limits::layers);
  dims.layers = pattern.size();
  if (const auto given = config.optional_number("num_hidden_layers", limits::layers);
      given && *given != dims.layers) {
    config.fail_value("num_hidden_layers",
                      fmt::format("disagrees with the {} layers of {}", dims.layers, json_quoted(pattern)));
  }
  std::string mtp_pattern;
  if (config.optional_number("num_nextn_predict_layers", limits::few, 0).value_or(0) > 0) {
    mtp_pattern = read_pattern(config, "mtp_hybrid_override_pattern", "mtp_layers_block_type", limits::few);
  }
  const Layers layers(config, out, pattern + mtp_pattern);

  out.section("backbone.");
  out.add(Kind::embedding, "embeddings.weight", {dims.vocab, dims.hidden});
  for (std::uint64_t i = 0; i < dims.layers; ++i) {
    out.section(layer_prefix("backbone.", i), static_cast<int>(i));
    layers.add(pattern[i]);
  }
  out.section("");
  out.add(Kind::norm, "backbone.norm_f.weight", {dims.hidden});
  if (!dims.tied_embeddings) out.add(Kind::lm_head, "lm_head.weight", {dims.vocab, dims.hidden});
  add_mtp(out, layers, mtp_pattern);
}

}  // namespace refit::model
