// Audits of dumps: what an engine has to hold, on every rank, and what is refused.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>

#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "support/dumped.hpp"
#include "support/error_of.hpp"

using namespace refit;
using namespace refit::test;
using audit::Fault;
using audit::Finding;
using audit::Report;

TEST_CASE("what a refit makes is what an engine has to hold, in every layout, recipe and mode") {
  for (const auto layout : {plan::MoeLayout::flashinfer_trtllm, plan::MoeLayout::checkpoint}) {
    for (const auto recipe : {model::RecipeKind::routed_experts, model::RecipeKind::all_linear}) {
      for (const auto rounding : {quant::Rounding::flashinfer, quant::Rounding::torchao_floor}) {
        const Refit refit(test::kTinyConfig, {rounding, quant::ZeroScale::keep, {}}, layout, recipe);
        Dumped dumped;
        dumped.request.recipe.kind = recipe;
        dumped.request.quant = {rounding, quant::ZeroScale::keep, {}};
        dumped.request.layout = layout == plan::MoeLayout::checkpoint ? audit::Layout::linear_128x4
                                                                      : audit::Layout::flashinfer_trtllm;
        dumped.sources = refit.sources();
        dumped.dump = refit.parameters();
        const Report report = dumped.audit();
        CAPTURE(audit::to_text(report, 10));
        CHECK(report.equal());
        CHECK(report.not_judged.empty());
        CHECK(report.judged.size() == dumped.dump.map.size());
      }
    }
  }
}

TEST_CASE("tensors that nothing is expected of are listed, and missing ones are differences") {
  Dumped dumped = tiny();
  dumped.dump["model.layers.0.self_attn.attn.k_scale"] = tensor_of<float>(DType::f32, {}, {1.0f});
  dumped.dump.map.erase(kW2 + "_scale");
  const Report report = dumped.audit();
  CHECK(report.not_judged == std::vector<std::string>{"model.layers.0.self_attn.attn.k_scale"});
  CHECK(report.findings.size() == 1);
  CHECK(finding_of(report, kW2 + "_scale").fault == Fault::missing);
}

TEST_CASE("experts nested one module deeper, canonical scales beside and SGLang's names are found") {
  Dumped dumped = tiny();
  const Tensors canonical =
      Refit(test::kTinyConfig, {{}, quant::ZeroScale::one, {}}, plan::MoeLayout::checkpoint).parameters();
  Tensors nested, sglang;
  for (const auto& [name, tensor] : dumped.dump.map) {
    std::string deep = name, scale = name;
    if (const auto at = name.find(".experts.w"); at != name.npos) deep.insert(at + 9, "routed_experts.");
    nested[deep] = tensor;
    if (name.ends_with("_scale")) scale += "_inv";
    sglang[scale] = tensor;
  }
  nested["model.layers.1.mlp.experts.routed_experts.w13_weight_scale_from_checkpoint"] =
      canonical.at(kW13 + "_scale");
  dumped.dump = nested;
  CHECK(dumped.audit().equal());
  CHECK(dumped.audit().not_judged.empty());
  dumped.request.engine = audit::Engine::sglang;
  dumped.dump = sglang;
  CHECK(dumped.audit().equal());
}

TEST_CASE("a parameter that a dump has under two names is judged under both") {
  Dumped dumped = tiny();
  std::string nested = kW13;
  nested.insert(nested.find(".w13"), ".routed_experts");
  for (const std::string suffix : {"", "_scale"}) dumped.dump[nested + suffix] = dumped.dump[kW13 + suffix];
  Report report = dumped.audit();
  CHECK(report.equal());
  CHECK(report.not_judged.empty());
  CHECK(report.judged.size() == dumped.dump.map.size());
  exchange(dumped.dump[nested].bytes, kExperts, 1, 4);
  check_diagnoses(dumped.audit(), {{nested, "values of experts 1 and 4 exchanged"}});
  dumped.dump[kW13 + "_scale"].bytes[0] ^= 1;
  check_diagnoses(dumped.audit(),
                  {{nested, "values of experts 1 and 4 exchanged"}, {kW13 + "_scale", "unknown"}});
}

TEST_CASE("sources that the model does not have that way are refused by name") {
  Dumped dumped = tiny();
  dumped.sources.map.erase("model.norm.weight");
  check_input_error([&] { (void)dumped.audit(); }, "model.norm.weight");
  dumped = tiny();
  dumped.sources["model.norm.weight"].shape = {128};
  dumped.sources["model.norm.weight"].bytes.resize(256);
  check_input_error([&] { (void)dumped.audit(); }, "model.norm.weight", "[128]", "[256]");
}

// --- ranks: a rank's refit is that of a smaller model with the rank's weights, cut here by hand ---

namespace {

/// `heads`, `kv`, widths and experts as one rank has them; 1024 rows of vocabulary on all ranks together.
std::string config_of(unsigned heads, unsigned kv, unsigned width, unsigned expert_width, unsigned vocab) {
  return R"({"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 256,
    "num_hidden_layers": 2, "head_dim": 64, "num_experts": 4, "num_experts_per_tok": 2, "mlp_only_layers": [0],
    "tie_word_embeddings": false, "torch_dtype": "bfloat16", "attention_bias": true, "num_attention_heads": )" +
         std::to_string(heads) + R"(, "num_key_value_heads": )" + std::to_string(kv) +
         R"(, "intermediate_size": )" + std::to_string(width) + R"(, "moe_intermediate_size": )" +
         std::to_string(expert_width) + R"(, "vocab_size": )" + std::to_string(vocab) + "}";
}

Octets rows_of(const Tensors::Tensor& tensor, std::uint64_t begin, std::uint64_t count) {
  const std::uint64_t row = tensor.bytes.size() / tensor.shape[0];
  const auto from = tensor.bytes.begin() + static_cast<std::ptrdiff_t>(begin * row);
  return {from, from + static_cast<std::ptrdiff_t>(count * row)};
}

/// The columns of BF16 [rows, cols].
Octets cols_of(const Tensors::Tensor& tensor, std::uint64_t begin, std::uint64_t count) {
  Octets out;
  const std::uint64_t row = tensor.bytes.size() / tensor.shape[0];
  for (std::uint64_t r = 0; r < tensor.shape[0]; ++r) {
    const auto from = tensor.bytes.begin() + static_cast<std::ptrdiff_t>(r * row + begin * 2);
    out.insert(out.end(), from, from + static_cast<std::ptrdiff_t>(count * 2));
  }
  return out;
}

bool has(const std::string& name, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](const char* word) { return name.find(word) != name.npos; });
}

/// Rank `rank` of `ranks` has these parts of the whole model's sources; KV heads are shared beyond `kv`.
Tensors cut(const Tensors& whole, unsigned ranks, unsigned rank, unsigned kv) {
  Tensors mine;
  for (const auto& [name, tensor] : whole.map) {
    Tensors::Tensor part = tensor;
    const std::uint64_t rows = tensor.shape[0];
    if (has(name, {"k_proj", "v_proj"})) {
      const unsigned cuts = std::min(kv, ranks);
      part.bytes = rows_of(tensor, rank * cuts / ranks * (rows / cuts), rows / cuts);
    } else if (has(name, {"q_proj", "gate_proj", "up_proj", "embed_tokens", "lm_head"})) {
      part.bytes = rows_of(tensor, rank * (rows / ranks), rows / ranks);
    } else if (has(name, {"o_proj.weight", "down_proj"})) {
      const std::uint64_t cols = tensor.shape[1] / ranks;
      part.bytes = cols_of(tensor, rank * cols, cols);
    }
    mine[name] = part;
  }
  return mine;
}

constexpr unsigned kTpHeads = 8, kTpKv = 2, kTpWidth = 512, kTpExpertWidth = 256;

Dumped tp_rank(unsigned ranks, unsigned rank, unsigned weights_of) {
  const std::string config = config_of(kTpHeads, kTpKv, kTpWidth, kTpExpertWidth, 1024);
  const quant::Options quant{quant::Rounding::flashinfer, quant::ZeroScale::one, {}};
  const Refit whole(config, quant, {}, model::RecipeKind::mlp);
  Refit part(config_of(kTpHeads / ranks, std::max(1u, kTpKv / ranks), kTpWidth / ranks,
                       kTpExpertWidth / ranks, 1024 / ranks),
             quant, {}, model::RecipeKind::mlp);
  Dumped dumped(config);
  dumped.request.recipe.kind = model::RecipeKind::mlp;
  dumped.request.tp_size = ranks;
  dumped.request.tp_rank = rank;
  dumped.sources = whole.sources();
  part.set_sources(cut(dumped.sources, ranks, weights_of, kTpKv));
  dumped.dump = part.parameters();
  return dumped;
}

}  // namespace

TEST_CASE("every TP rank holds its cut of each part, and KV heads are shared where ranks outnumber them") {
  for (const unsigned ranks : {2u, 4u}) {
    for (unsigned rank = 0; rank < ranks; ++rank) {
      const Report report = tp_rank(ranks, rank, rank).audit();
      CAPTURE(ranks, rank, audit::to_text(report, 20));
      CHECK(report.equal());
      CHECK(report.not_judged.empty());
    }
  }
}

TEST_CASE("the cuts of a source that is MXFP8 already take the scales along") {
  const auto chosen = [](const std::string& name) {
    return has(name, {"gate_proj", "up_proj", "down_proj"});
  };
  for (unsigned rank = 0; rank < 2; ++rank) {
    Dumped dumped = tp_rank(2, rank, rank);
    dumped.sources = quantized(dumped.sources, chosen, {{}, quant::ZeroScale::one, {}});
    const Report report = dumped.audit();
    CAPTURE(rank, audit::to_text(report, 20));
    CHECK(report.equal());
    dumped.request.tp_rank = 1 - rank;
    CHECK(diagnosis_of(dumped.audit(), kW13 + "_scale") ==
          "weights of TP rank " + std::to_string(rank) + " on rank " + std::to_string(1 - rank));
  }
}

TEST_CASE("diagnosis: the weights of another TP rank") {
  const Report report = tp_rank(2, 0, 1).audit();
  CHECK(report.findings.size() > 10);
  for (const Finding& finding : report.findings) {
    CAPTURE(finding.tensor);
    CHECK(finding.diagnosis->sentence == "weights of TP rank 1 on rank 0");
  }
}

TEST_CASE("diagnosis: a fused tensor that was cut evenly, not part by part") {
  Dumped dumped = tp_rank(2, 1, 1);
  const std::string attention = "model.layers.1.self_attn.";
  Octets joined;
  for (const char* const part : {"q_proj.weight", "k_proj.weight", "v_proj.weight"}) {
    const Octets& bytes = dumped.sources.at(attention + part).bytes;
    joined.insert(joined.end(), bytes.begin(), bytes.end());
  }
  dumped.dump[attention + "qkv_proj.weight"].bytes.assign(
      joined.begin() + static_cast<std::ptrdiff_t>(joined.size() / 2), joined.end());
  check_diagnoses(dumped.audit(),
                  {{attention + "qkv_proj.weight", "the joined tensor was cut evenly, not part by part"}});
}

TEST_CASE("an EP rank holds a range of whole experts, and another rank's are named") {
  const Refit whole(test::kTinyConfig);
  for (const unsigned weights_of : {0u, 1u}) {
    Dumped dumped;
    dumped.request.ep_size = 2;
    dumped.request.ep_rank = 1;
    dumped.sources = whole.sources();
    dumped.dump = whole.parameters();
    for (auto& [name, tensor] : dumped.dump.map) {
      if (!has(name, {".experts.w"})) continue;
      tensor.bytes = rows_of(tensor, 4 * weights_of, 4);
      tensor.shape[0] = 4;
    }
    const Report report = dumped.audit();
    if (weights_of == 1) {
      CHECK(report.equal());
      exchange(dumped.dump[kW13].bytes, 4, 2, 3);
      check_diagnoses(dumped.audit(), {{kW13, "values of experts 6 and 7 exchanged"}});
    } else {
      CHECK(report.findings.size() == 8);
      for (const Finding& finding : report.findings) {
        CHECK(finding.diagnosis->sentence == "weights of EP rank 0 on rank 1");
      }
    }
  }
}

TEST_CASE("diagnosis: vocabulary padding of the last TP rank") {
  std::string config = config_of(kTpHeads, kTpKv, kTpWidth, kTpExpertWidth, 1000);
  const quant::Options quant{quant::Rounding::flashinfer, quant::ZeroScale::one, {}};
  const Refit whole(config, quant, {}, model::RecipeKind::mlp);
  Dumped dumped(config);
  dumped.request.recipe.kind = model::RecipeKind::mlp;
  dumped.request.tp_size = 2;
  dumped.request.tp_rank = 1;
  dumped.sources = whole.sources();
  Tensors::Tensor& head = dumped.dump["lm_head.weight"];
  head = {DType::bf16, {512, kHidden}, rows_of(dumped.sources.at("lm_head.weight"), 512, 488)};
  head.bytes.resize(512 * kHidden * 2);
  const auto wrong = [&] {
    const Report report = dumped.audit();
    return std::count_if(report.findings.begin(), report.findings.end(),
                         [](const Finding& finding) { return finding.fault != Fault::missing; });
  };
  CHECK(wrong() == 0);
  head.bytes[500 * kHidden * 2 + 7] = 1;
  CHECK(wrong() == 1);
  CHECK(diagnosis_of(dumped.audit(), "lm_head.weight") ==
        "vocabulary padding not zero: rows 488 to 511 are beyond the vocabulary, and 1 of them is not zero, "
        "row "
        "500");
}

TEST_CASE("what does not divide by the ranks is refused with the numbers") {
  const auto refused = [](std::uint32_t tp, std::uint32_t ep, auto... words) {
    Dumped dumped = tp_rank(2, 0, 0);
    dumped.request.tp_size = tp;
    dumped.request.ep_size = ep;
    check_input_error([&] { (void)dumped.audit(); }, words...);
  };
  refused(3, 1, "8 attention heads", "3");
  refused(1, 3, "4 experts", "3");
  refused(8, 1, "rows an expert", "multiple of 128");
  Dumped moon = tiny();
  moon.request.tp_rank = 1;
  check_input_error([&] { (void)moon.audit(); }, "--tp-rank 1");
}

TEST_CASE("latent attention: joined projections, and the split of what comes out by heads") {
  const std::string config = R"({"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3",
    "hidden_size": 256, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4,
    "qk_nope_head_dim": 32, "qk_rope_head_dim": 32, "v_head_dim": 32, "kv_lora_rank": 64, "q_lora_rank": 64,
    "intermediate_size": 512, "moe_intermediate_size": 128, "n_routed_experts": 4, "num_experts_per_tok": 2,
    "n_shared_experts": 1, "first_k_dense_replace": 0, "vocab_size": 1024, "tie_word_embeddings": false,
    "torch_dtype": "bfloat16"})";
  const Refit refit(config);
  Dumped dumped(config);
  dumped.sources = refit.sources();
  dumped.dump = refit.parameters();
  CHECK(dumped.audit().equal());
  // As vLLM and SGLang join them.
  const std::string attention = "model.layers.0.self_attn.";
  Tensors::Tensor joined = dumped.dump.at(attention + "q_a_proj.weight");
  const Tensors::Tensor below = dumped.dump.at(attention + "kv_a_proj_with_mqa.weight");
  joined.shape[0] += below.shape[0];
  joined.bytes.insert(joined.bytes.end(), below.bytes.begin(), below.bytes.end());
  dumped.dump.map.erase(attention + "q_a_proj.weight");
  dumped.dump.map.erase(attention + "kv_a_proj_with_mqa.weight");
  for (const char* const name : {"fused_qkv_a_proj.weight", "fused_qkv_a_proj_with_mqa.weight"}) {
    dumped.dump[attention + name] = joined;
    const Report report = dumped.audit();
    CAPTURE(audit::to_text(report, 10));
    CHECK(report.equal());
    CHECK(report.not_judged.empty());
    // Beside the joined one the two are judged as well.
    dumped.dump[attention + "kv_a_proj_with_mqa.weight"] = below;
    CHECK(dumped.audit().equal());
    dumped.dump[attention + "kv_a_proj_with_mqa.weight"].bytes[0] ^= 1;
    check_diagnoses(dumped.audit(), {{attention + "kv_a_proj_with_mqa.weight", "unknown"}});
    dumped.dump.map.erase(attention + "kv_a_proj_with_mqa.weight");
    dumped.dump.map.erase(attention + name);
  }
  CHECK(dumped.audit().findings.size() == 2);
  // Rank 1 of 2 has the second half of the heads, and all of what they share.
  dumped = Dumped(config);
  dumped.sources = refit.sources();
  dumped.request.tp_size = 2;
  dumped.request.tp_rank = 1;
  const Tensors whole = refit.parameters();
  for (const std::string name : {"q_b_proj.weight", "kv_b_proj.weight"}) {
    Tensors::Tensor half = whole.map.at(attention + name);
    half.shape[0] /= 2;
    half.bytes.erase(half.bytes.begin(),
                     half.bytes.begin() + static_cast<std::ptrdiff_t>(half.bytes.size() / 2));
    dumped.dump[attention + name] = half;
  }
  for (const std::string name : {"q_a_proj.weight", "kv_a_proj_with_mqa.weight"}) {
    dumped.dump[attention + name] = whole.map.at(attention + name);
  }
  for (const Finding& finding : dumped.audit().findings) {
    CAPTURE(finding.tensor);
    CHECK(finding.fault == Fault::missing);
    for (const char* const judged : {"q_a_proj", "q_b_proj", "kv_a_proj", "kv_b_proj"}) {
      CHECK(finding.tensor.find(judged) == std::string::npos);
    }
  }
  dumped.request.tp_rank = 0;
  CHECK(dumped.audit().findings.size() > 2);
}

TEST_CASE("kinds of tensors whose split is not known are refused by name under TP") {
  std::ifstream file(std::string(REFIT_TESTS_DIR) + "/cases/configs/Qwen3.5-35B-A3B/config.json");
  REQUIRE(file);
  nlohmann::json config = nlohmann::json::parse(file);
  config["text_config"].update(
      nlohmann::json::parse(R"({"hidden_size": 128, "num_hidden_layers": 4, "num_experts": 2,
    "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"],
    "moe_intermediate_size": 64, "shared_expert_intermediate_size": 32, "vocab_size": 128})"));
  Dumped dumped(config.dump());
  for (const model::Tensor& tensor : dumped.request.model.tensors) {
    const TensorSpec& spec = tensor.spec;
    dumped.sources[spec.name] = {spec.dtype, spec.shape, Octets(spec.bytes())};
  }
  dumped.request.tp_size = 2;
  check_input_error([&] { (void)dumped.audit(); }, "attention_other", "linear_attn", "--tp-size 1");
}

TEST_CASE("the audit of a dump is the same for any number of threads") {
  Dumped dumped = tiny();
  dumped.dump[kW13].bytes[77] ^= 1;
  exchange(dumped.dump[kW2].bytes, kExperts, 2, 3);
  CHECK(audit::to_json(dumped.audit(1)) != "");
  const auto text = [&](unsigned threads) { return audit::to_text(dumped.audit(threads), 10); };
  CHECK(text(1) == text(4));
}
