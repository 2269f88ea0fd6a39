// Model inventories against published totals, shapes and names; refusals; slices; recipes.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "refit/base/error.hpp"
#include "refit/model/inventory.hpp"
#include "refit/model/recipe.hpp"
#include "support/catch.hpp"

using refit::DType;
using refit::Json;
using refit::Shape;
using refit::to_string;
using namespace refit::model;

namespace {

const std::string tests_dir = REFIT_TESTS_DIR;

std::string config_path(const std::string& name) {
  for (const std::string folder : {"/cases/configs/", "/cases/configs_odd/", "/../scenarios/models/"}) {
    const std::string path = tests_dir + folder + name + "/config.json";
    if (FILE* file = std::fopen(path.c_str(), "r")) {
      std::fclose(file);
      return path;
    }
  }
  FAIL("no configuration " + name);
  return {};
}

Inventory model(const std::string& name) {
  return load_inventory(config_path(name));
}

Json config(const std::string& name) {
  return refit::read_json_file(config_path(name));
}

Inventory parse(const Json& document) {
  return parse_inventory(document.dump(), "here/config.json");
}

/// The named configuration with the fields of a JSON object replaced.
Json patched(const std::string& name, const std::string& patch) {
  Json document = config(name);
  document.update(refit::parse_json(patch, "patch"));
  return document;
}

Inventory changed(const std::string& name, const std::string& patch) {
  return parse(patched(name, patch));
}

const Tensor* find(const std::vector<Tensor>& tensors, const std::string& name) {
  for (const Tensor& tensor : tensors) {
    if (tensor.spec.name == name) return &tensor;
  }
  return nullptr;
}

std::string shape(const Inventory& inventory, const std::string& name) {
  const Tensor* tensor = find(inventory.tensors, name);
  return tensor ? to_string(tensor->spec.shape) : "absent";
}

std::string kind(const Inventory& inventory, const std::string& name) {
  const Tensor* tensor = find(inventory.tensors, name);
  return tensor ? std::string(name_of(tensor->kind)) : "absent";
}

using Expected = std::initializer_list<std::pair<const char*, const char*>>;

/// Pairs of a name after `prefix` and the shape, or "absent".
void check_shapes(const Inventory& inventory, const std::string& prefix, const Expected& expected) {
  for (const auto& [name, text] : expected) {
    CAPTURE(prefix, name);
    CHECK(shape(inventory, prefix + name) == text);
  }
}

/// The same with kinds.
void check_kinds(const Inventory& inventory, const std::string& prefix, const Expected& expected) {
  for (const auto& [name, text] : expected) {
    CAPTURE(prefix, name);
    CHECK(kind(inventory, prefix + name) == text);
  }
}

std::uint64_t elements(const std::vector<Tensor>& tensors) {
  std::uint64_t sum = 0;
  for (const Tensor& tensor : tensors) sum += refit::num_elements(tensor.spec.shape);
  return sum;
}

std::string refusal(const Json& document) {
  try {
    static_cast<void>(parse(document));
  } catch (const refit::Error& error) {
    CHECK(error.kind() == refit::ErrorKind::input);
    return error.what();
  }
  return "accepted";
}

std::string refusal(const std::string& name, const std::string& patch) {
  return refusal(patched(name, patch));
}

std::set<int> layers_of(const Inventory& inventory) {
  std::set<int> layers;
  for (const Tensor& tensor : inventory.tensors) {
    if (tensor.layer >= 0) layers.insert(tensor.layer);
  }
  return layers;
}

const std::vector<std::string> all_models{
    "Qwen3-30B-A3B",     "Qwen3-32B",        "DeepSeek-V3",      "Llama-3.1-8B",
    "Mixtral-8x7B",      "GLM-4.5-Air",      "gpt-oss-20b",      "Nemotron-3-Nano-30B-A3B",
    "null_fields",       "Kimi-K2-Instruct", "Qwen3.5-35B-A3B",  "nested_text_config_vl",
    "GLM-4.5",           "qwen3-235b-a22b",  "tiny-Qwen3-MoE",   "tiny-moe",
    "moonlight-16b-a3b", "gpt-oss-120b",     "qwen3.5-397b-a17b"};

}  // namespace

TEST_CASE("inventories have the published numbers of tensors and parameters") {
  struct Row {
    const char* name;
    std::uint64_t tensors, parameters;
  };
  static constexpr Row rows[] = {
      // tests/cases/README.md
      {"Qwen3-30B-A3B", 18867, 30532122624},
      {"Qwen3-32B", 707, 32762123264},
      {"DeepSeek-V3", 45395, 671026419200},
      {"Llama-3.1-8B", 291, 8030261248},
      {"Mixtral-8x7B", 995, 46702792704},
      {"Nemotron-3-Nano-30B-A3B", 6243, 31577940288},
      {"null_fields", 39, 211573248},
      {"rope_parameters_v5", 310, 596049920},
      {"qwen3-30b-a3b", 18867, 30532122624},
      {"qwen3-235b-a22b", 36945, 235093634560},
      {"qwen3-32b", 707, 32762123264},
      {"nemotron-3-nano-30b-a3b", 6243, 31577940288},
      // Fused experts, two tensors a layer: 48 x (4 + 2 norms + 1 router + 2 slabs + 2 norms) + 3.
      {"nested_text_config_vl", 48 * 11 + 3, 30532122624},
      // DeepSeek-V2-Lite's layout with Moonlight's sizes: 5 attention + 2 norms, 3 or 192 + 2 + 3 of an MLP.
      {"moonlight-16b-a3b", 27 * 7 + 3 + 26 * 197 + 3, 15960110208},
      // Published totals: safetensors metadata of the model pages, GLM-4.5's less its prediction layer.
      {"Kimi-K2-Instruct", 61 * 9 + 3 + 60 * (384 * 3 + 5) + 3, 1026408232448},
      {"GLM-4.5-Air", 46 * 9 + 3 + 45 * (128 * 3 + 5) + 3, 106852251264},
      {"gpt-oss-20b", 24 * 17 + 3, 20914757184},
      {"Qwen3.5-35B-A3B", 30 * 9 + 10 * 6 + 40 * 9 + 3, 34660610688},
      {"deepseek-v3", 45395, 671026419200},
      {"kimi-k2-instruct", 61 * 9 + 3 + 60 * (384 * 3 + 5) + 3, 1026408232448},
      {"glm-4.5-air", 46 * 9 + 3 + 45 * (128 * 3 + 5) + 3, 106852251264},
      {"gpt-oss-120b", 36 * 17 + 3, 116829156672},
      // 403,397,928,944 on the model page, of which 456,010,480 are the vision tower's and the rest the
      // prediction layer's.
      {"qwen3.5-397b-a17b", 45 * 9 + 15 * 6 + 60 * 9 + 3, 403397928944 - 456010480 - 6595568128},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const Inventory inventory = model(row.name);
    CHECK(inventory.tensors.size() == row.tensors);
    CHECK(inventory.parameters() == row.parameters);
  }
}

TEST_CASE("a second size of a family has its published total too") {
  CHECK(changed("gpt-oss-20b", R"({"num_hidden_layers": 36, "num_local_experts": 128})").parameters() ==
        116829156672);
}

TEST_CASE("the prediction layer that a trainer leaves out is counted apart") {
  CHECK(elements(model("qwen3.5-397b-a17b").mtp) == 6595568128);
  CHECK(model("kimi-k2-instruct").mtp.empty());
  CHECK(elements(model("deepseek-v3").mtp) == elements(model("DeepSeek-V3").mtp));
}

TEST_CASE("the hostile model has the sizes that it is for") {
  const Inventory hostile = model("hostile-moe");
  CHECK(hostile.dims.tied_embeddings);
  CHECK(shape(hostile, "lm_head.weight") == "absent");
  CHECK(shape(hostile, "model.embed_tokens.weight") == "[5003, 384]");
  check_shapes(hostile, "model.layers.",
               {{"0.self_attn.q_proj.weight", "[216, 384]"},
                {"0.mlp.down_proj.weight", "[384, 160]"},            // K/32 = 5
                {"1.mlp.experts.5.down_proj.weight", "[384, 192]"},  // K/32 = 6
                {"1.mlp.gate.e_score_correction_bias", "[6]"}});
}

TEST_CASE("bytes follow the dtype of each tensor") {
  const Inventory qwen = model("Qwen3-30B-A3B");
  CHECK(qwen.bytes() == 61064245248);
  CHECK(qwen.expert_bytes() == 57982058496);

  // 58 expert layers have 256 biases of four bytes, everything else two.
  const Inventory deepseek = model("DeepSeek-V3");
  CHECK(deepseek.bytes() == 2 * deepseek.parameters() + 2 * 58 * 256);
  CHECK(deepseek.expert_bytes() == 2ull * 58 * 256 * 3 * 7168 * 2048);

  const Inventory wide = changed("Qwen3-30B-A3B", R"({"torch_dtype": "float32"})");
  CHECK(wide.bytes() == 2 * qwen.bytes());
  CHECK(changed("Qwen3-30B-A3B", R"({"torch_dtype": "float16"})").tensors[0].spec.dtype == DType::f16);
  // Not the wide model's bias, which is FP32 anyway.
  CHECK(changed("DeepSeek-V3", R"({"torch_dtype": "float32"})").bytes() == 4 * deepseek.parameters());
}

TEST_CASE("names are unique, and layers come in numeric order between embedding and head") {
  const std::string name = GENERATE(from_range(all_models));
  CAPTURE(name);
  const Inventory inventory = model(name);
  std::set<std::string> names;
  int layer = -1;
  for (std::size_t i = 0; i < inventory.tensors.size(); ++i) {
    const Tensor& tensor = inventory.tensors[i];
    names.insert(tensor.spec.name);
    if (tensor.layer < 0) continue;
    REQUIRE((tensor.layer == layer || tensor.layer == layer + 1));
    layer = tensor.layer;
    REQUIRE(tensor.spec.name.find(fmt::format("layers.{}.", layer)) != std::string::npos);
    if (tensor.expert >= 0) {
      REQUIRE(tensor.spec.name.find(fmt::format("experts.{}.", tensor.expert)) != std::string::npos);
    }
  }
  for (const Tensor& tensor : inventory.mtp) names.insert(tensor.spec.name);
  CHECK(names.size() == inventory.tensors.size() + inventory.mtp.size());
  CHECK(static_cast<std::uint64_t>(layer) + 1 == inventory.dims.layers);
  CHECK(inventory.tensors.front().kind == Kind::embedding);
  CHECK(inventory.tensors[inventory.tensors.size() - 2].kind == Kind::norm);
  CHECK(inventory.tensors.back().kind == Kind::lm_head);
}

TEST_CASE("Qwen3-30B-A3B has 128 experts of width 768") {
  const Inventory qwen = model("Qwen3-30B-A3B");
  CHECK(qwen.architecture == "Qwen3MoeForCausalLM");
  CHECK(qwen.model_type == "qwen3_moe");
  CHECK(qwen.moe());
  CHECK(qwen.dims.experts == 128);
  CHECK(qwen.dims.expert_intermediate == 768);
  CHECK(qwen.dims.intermediate == 0);
  CHECK(qwen.dims.kv_heads == 4);
  CHECK(qwen.dims.slabs == SlabForm::none);
  CHECK(qwen.mtp.empty());
  check_shapes(qwen, "model.",
               {{"embed_tokens.weight", "[151936, 2048]"},
                {"layers.47.self_attn.q_proj.weight", "[4096, 2048]"},
                {"layers.47.self_attn.k_proj.weight", "[512, 2048]"},
                {"layers.47.self_attn.o_proj.weight", "[2048, 4096]"},
                {"layers.0.self_attn.q_norm.weight", "[128]"},
                {"layers.0.self_attn.k_norm.weight", "[128]"},
                {"layers.0.mlp.gate.weight", "[128, 2048]"},
                {"layers.0.mlp.experts.127.gate_proj.weight", "[768, 2048]"},
                {"layers.0.mlp.experts.127.down_proj.weight", "[2048, 768]"},
                {"layers.0.mlp.experts.128.gate_proj.weight", "absent"},
                {"layers.0.mlp.gate_proj.weight", "absent"}});
  CHECK(kind(qwen, "model.layers.0.mlp.experts.3.up_proj.weight") == "expert_up");
  CHECK(find(qwen.tensors, "model.layers.9.mlp.experts.3.up_proj.weight")->expert == 3);
}

TEST_CASE("Qwen3-MoE honours decoder_sparse_step and mlp_only_layers") {
  const Inventory mixed = changed("tiny-Qwen3-MoE", R"({"decoder_sparse_step": 2, "mlp_only_layers": [3]})");
  check_shapes(mixed, "model.layers.",
               {{"0.mlp.gate_proj.weight", "[512, 256]"},
                {"1.mlp.gate.weight", "[8, 256]"},
                {"2.mlp.down_proj.weight", "[256, 512]"},
                {"3.mlp.up_proj.weight", "[512, 256]"}});
  CHECK(mixed.dims.intermediate == 512);
  CHECK(mixed.dims.experts == 8);
}

TEST_CASE("Qwen3-32B takes its explicit head size") {
  const Inventory qwen = model("Qwen3-32B");
  CHECK_FALSE(qwen.moe());
  CHECK(qwen.expert_bytes() == 0);
  CHECK(qwen.dims.intermediate == 25600);
  check_shapes(qwen, "model.layers.63.self_attn.",
               {{"q_proj.weight", "[8192, 5120]"}, {"o_proj.weight", "[5120, 8192]"}});
  // Qwen3-4B in the public record: 32 heads of 128 at hidden 2560.
  const Inventory small = changed("Qwen3-32B", R"({"hidden_size": 2560, "num_attention_heads": 32})");
  CHECK(shape(small, "model.layers.0.self_attn.q_proj.weight") == "[4096, 2560]");
}

TEST_CASE("DeepSeek-V3 has dense layers, latent attention and an FP32 router bias") {
  const Inventory deepseek = model("DeepSeek-V3");
  CHECK(shape(deepseek, "model.embed_tokens.weight") == "[129280, 7168]");
  CHECK(deepseek.tensors.front().spec.bytes() == 1853358080);
  for (const int i : {0, 1, 2}) {
    CHECK(shape(deepseek, fmt::format("model.layers.{}.mlp.gate_proj.weight", i)) == "[18432, 7168]");
    CHECK(shape(deepseek, fmt::format("model.layers.{}.mlp.gate.weight", i)) == "absent");
  }
  for (const int i : {3, 60}) {
    const std::string at = fmt::format("model.layers.{}.", i);
    check_shapes(deepseek, at,
                 {{"mlp.gate_proj.weight", "absent"},
                  {"mlp.experts.255.up_proj.weight", "[2048, 7168]"},
                  {"mlp.experts.256.up_proj.weight", "absent"},
                  {"mlp.shared_experts.down_proj.weight", "[7168, 2048]"}});
    const Tensor* bias = find(deepseek.tensors, at + "mlp.gate.e_score_correction_bias");
    REQUIRE(bias);
    CHECK(bias->kind == Kind::router_bias);
    CHECK(bias->spec.dtype == DType::f32);
    CHECK(bias->spec.bytes() == 1024);
  }
  check_shapes(deepseek, "model.layers.0.self_attn.",
               {{"q_a_proj.weight", "[1536, 7168]"},
                {"q_a_layernorm.weight", "[1536]"},
                {"q_b_proj.weight", "[24576, 1536]"},
                {"kv_a_proj_with_mqa.weight", "[576, 7168]"},
                {"kv_a_layernorm.weight", "[512]"},
                {"kv_b_proj.weight", "[32768, 512]"},
                {"o_proj.weight", "[7168, 16384]"}});
  CHECK(kind(deepseek, "model.layers.0.self_attn.kv_b_proj.weight") == "attention_other");
  CHECK(deepseek.dims.head_dim == 192);
  CHECK(deepseek.dims.shared_experts == 1);
}

TEST_CASE("Moonlight without a query rank has one query projection") {
  const Inventory moonlight = model("moonlight-16b-a3b");
  CHECK(shape(moonlight, "model.layers.0.self_attn.q_proj.weight") == "[3072, 2048]");
  CHECK(kind(moonlight, "model.layers.0.self_attn.q_proj.weight") == "attention_other");
  check_shapes(moonlight, "model.layers.",
               {{"0.self_attn.q_a_proj.weight", "absent"},
                {"0.mlp.gate_proj.weight", "[11264, 2048]"},
                {"1.mlp.shared_experts.gate_proj.weight", "[2816, 2048]"},
                {"26.mlp.experts.63.gate_proj.weight", "[1408, 2048]"}});
  CHECK(moonlight.mtp.empty());
}

TEST_CASE("DeepSeek-V3 variants: layer frequency, biases, no correction bias, no shared expert") {
  const Inventory sparse = changed("moonlight-16b-a3b", R"({"moe_layer_freq": 2})");
  check_kinds(sparse, "model.layers.",
              {{"1.mlp.up_proj.weight", "mlp_up"},
               {"2.mlp.gate.weight", "router"},
               {"3.mlp.up_proj.weight", "mlp_up"}});

  const Inventory biased = changed("DeepSeek-V3", R"({"attention_bias": true, "num_hidden_layers": 4})");
  check_shapes(biased, "model.layers.0.self_attn.",
               {{"q_a_proj.bias", "[1536]"},
                {"kv_a_proj_with_mqa.bias", "[576]"},
                {"o_proj.bias", "[7168]"},
                {"q_b_proj.bias", "absent"},
                {"kv_b_proj.bias", "absent"}});

  CHECK(kind(changed("moonlight-16b-a3b", R"({"topk_method": "greedy"})"),
             "model.layers.1.mlp.gate.e_score_correction_bias") == "absent");
  CHECK(kind(changed("moonlight-16b-a3b", R"({"n_shared_experts": 0})"),
             "model.layers.1.mlp.shared_experts.up_proj.weight") == "absent");
}

TEST_CASE("multi-token prediction is listed apart under both spellings") {
  SECTION("a trailing layer index") {
    const Inventory deepseek = model("DeepSeek-V3");
    CHECK(layers_of(deepseek).size() == 61);
    CHECK(shape(deepseek, "model.layers.61.eh_proj.weight") == "absent");
    const Tensor* join = find(deepseek.mtp, "model.layers.61.eh_proj.weight");
    REQUIRE(join);
    CHECK(join->spec.shape == Shape{7168, 14336});
    CHECK(join->kind == Kind::mtp_other);
    CHECK(join->layer == 61);
    CHECK(find(deepseek.mtp, "model.layers.61.mlp.experts.255.gate_proj.weight"));
    for (const std::string name :
         {"embed_tokens", "enorm", "hnorm", "shared_head.norm", "shared_head.head"}) {
      CHECK(find(deepseek.mtp, "model.layers.61." + name + ".weight"));
    }
    // 9 of attention and norms, 3 x 256 + 2 + 3 of the experts, 6 of prediction.
    CHECK(deepseek.mtp.size() == 788);
  }
  SECTION("the published totals of GLM-4.5 count it") {
    for (const auto& [name, total] : {std::pair<std::string, std::uint64_t>{"GLM-4.5-Air", 110468824832},
                                      std::pair<std::string, std::uint64_t>{"GLM-4.5", 358337791296}}) {
      const Inventory glm = model(name);
      CHECK(glm.parameters() + elements(glm.mtp) == total);
    }
  }
  SECTION("names that begin with mtp") {
    const Inventory qwen = model("Qwen3.5-35B-A3B");
    CHECK(qwen.mtp.size() == 19);
    CHECK(std::all_of(qwen.mtp.begin(), qwen.mtp.end(),
                      [](const Tensor& tensor) { return tensor.spec.name.starts_with("mtp."); }));
    CHECK(find(qwen.mtp, "mtp.fc.weight")->spec.shape == Shape{2048, 4096});
    CHECK(find(qwen.mtp, "mtp.layers.0.mlp.experts.gate_up_proj")->spec.shape == Shape{256, 1024, 2048});
    CHECK(find(qwen.mtp, "mtp.layers.0.self_attn.q_proj.weight"));
  }
  SECTION("Nemotron-H's pattern of its own") {
    const Inventory nemotron = changed(
        "Nemotron-3-Nano-30B-A3B", R"({"num_nextn_predict_layers": 1, "mtp_hybrid_override_pattern": "*E"})");
    CHECK(nemotron.tensors.size() == 6243);
    CHECK(find(nemotron.mtp, "mtp.layers.0.eh_proj.weight")->spec.shape == Shape{2688, 5376});
    CHECK(find(nemotron.mtp, "mtp.layers.0.mixer.q_proj.weight"));
    CHECK(find(nemotron.mtp, "mtp.layers.1.mixer.gate.e_score_correction_bias")->spec.dtype == DType::f32);
    CHECK(find(nemotron.mtp, "mtp.layers.1.final_layernorm.weight"));
    CHECK(nemotron.mtp.size() == 3 + 5 + 261 + 1);
  }
}

TEST_CASE("Llama derives its head size, and biases follow attention_bias") {
  const Inventory llama = model("Llama-3.1-8B");
  CHECK(llama.dims.head_dim == 128);
  check_shapes(
      llama, "model.layers.31.self_attn.",
      {{"q_proj.weight", "[4096, 4096]"}, {"v_proj.weight", "[1024, 4096]"}, {"q_norm.weight", "absent"}});
  const Inventory biased = changed("Llama-3.1-8B", R"({"attention_bias": true})");
  CHECK(biased.tensors.size() == 291 + 4 * 32);
  CHECK(kind(biased, "model.layers.0.self_attn.o_proj.bias") == "attention_bias");
  const Inventory qwen2 = changed("Llama-3.1-8B", R"({"architectures": ["Qwen2ForCausalLM"]})");
  CHECK(qwen2.tensors.size() == 291 + 3 * 32);
  check_shapes(qwen2, "model.layers.0.self_attn.", {{"k_proj.bias", "[1024]"}, {"o_proj.bias", "absent"}});
  CHECK(changed("Llama-3.1-8B", R"({"architectures": ["MistralForCausalLM"]})").parameters() == 8030261248);
}

TEST_CASE("Mixtral names its experts w1, w2 and w3") {
  const Inventory mixtral = model("Mixtral-8x7B");
  CHECK(mixtral.dims.experts == 8);
  CHECK(mixtral.dims.expert_intermediate == 14336);
  CHECK(mixtral.dims.intermediate == 0);
  const std::string at = "model.layers.31.block_sparse_moe.";
  check_shapes(mixtral, at,
               {{"gate.weight", "[8, 4096]"},
                {"experts.7.w1.weight", "[14336, 4096]"},
                {"experts.7.w2.weight", "[4096, 14336]"}});
  check_kinds(mixtral, at,
              {{"experts.7.w1.weight", "expert_gate"},
               {"experts.7.w2.weight", "expert_down"},
               {"experts.7.w3.weight", "expert_up"}});
}

TEST_CASE("GLM-4.5 has query biases but none of the output, and norms where use_qk_norm says so") {
  const Inventory air = model("GLM-4.5-Air");
  check_shapes(air, "model.layers.0.",
               {{"self_attn.q_proj.weight", "[12288, 4096]"},
                {"self_attn.q_proj.bias", "[12288]"},
                {"self_attn.o_proj.bias", "absent"},
                {"self_attn.q_norm.weight", "absent"},
                {"mlp.up_proj.weight", "[10944, 4096]"}});
  CHECK(find(air.tensors, "model.layers.1.mlp.gate.e_score_correction_bias")->spec.dtype == DType::f32);
  CHECK(shape(model("GLM-4.5"), "model.layers.3.self_attn.q_norm.weight") == "[128]");
}

TEST_CASE("Nemotron-3-Nano follows its pattern of Mamba, expert and attention layers") {
  const Inventory nemotron = model("Nemotron-3-Nano-30B-A3B");
  std::string pattern(52, '?');
  for (const Tensor& tensor : nemotron.tensors) {
    if (tensor.layer < 0) continue;
    char& letter = pattern[static_cast<std::size_t>(tensor.layer)];
    if (tensor.kind == Kind::mamba) letter = 'M';
    if (tensor.kind == Kind::expert_up) letter = 'E';
    if (tensor.kind == Kind::attention_q) letter = '*';
  }
  CHECK(pattern == config("Nemotron-3-Nano-30B-A3B")["hybrid_override_pattern"].get<std::string>());
  CHECK(std::count(pattern.begin(), pattern.end(), 'M') == 23);
  CHECK(std::count(pattern.begin(), pattern.end(), 'E') == 23);
  for (const std::size_t i : {5u, 12u, 19u, 26u, 33u, 42u}) CHECK(pattern[i] == '*');

  CHECK_FALSE(nemotron.dims.gated_experts);
  CHECK(model("Qwen3-30B-A3B").dims.gated_experts);
  check_shapes(nemotron, "backbone.",
               {{"embeddings.weight", "[131072, 2688]"},
                {"layers.0.mixer.in_proj.weight", "[10304, 2688]"},
                {"layers.0.mixer.conv1d.weight", "[6144, 1, 4]"},
                {"layers.0.mixer.out_proj.weight", "[2688, 4096]"},
                {"layers.0.mixer.in_proj.bias", "absent"},
                {"layers.1.mixer.experts.127.up_proj.weight", "[1856, 2688]"},
                {"layers.1.mixer.experts.127.down_proj.weight", "[2688, 1856]"},
                {"layers.1.mixer.experts.127.gate_proj.weight", "absent"},
                {"layers.1.mixer.shared_experts.up_proj.weight", "[3712, 2688]"},
                {"layers.5.mixer.k_proj.weight", "[256, 2688]"},
                {"norm_f.weight", "[2688]"}});
  for (const std::string name : {"1.mixer.gate.e_score_correction_bias", "0.mixer.A_log", "0.mixer.D"}) {
    CHECK(find(nemotron.tensors, "backbone.layers." + name)->spec.dtype == DType::f32);
  }
}

TEST_CASE("Nemotron-H may spell its layers out, be dense, and carry biases") {
  Json document = config("Nemotron-3-Nano-30B-A3B");
  document["hybrid_override_pattern"] = nullptr;
  document["num_hidden_layers"] = nullptr;
  document["layers_block_type"] = {"mamba", "moe", "full_attention", "linear_attention", "attention"};
  const Inventory listed = parse(document);
  CHECK(listed.dims.layers == 5);
  check_kinds(listed, "backbone.layers.",
              {{"3.mixer.in_proj.weight", "mamba"}, {"4.mixer.q_proj.weight", "attention_q"}});

  document["layers_block_type"] = {"mamba", "mlp", "attention"};
  document["use_bias"] = true;
  document["head_dim"] = nullptr;
  document["attention_head_dim"] = 64;
  const Inventory dense = parse(document);
  CHECK_FALSE(dense.moe());
  CHECK(shape(dense, "backbone.layers.1.mixer.up_proj.weight") == "[1856, 2688]");
  CHECK(kind(dense, "backbone.layers.1.mixer.down_proj.weight") == "mlp_down");
  check_shapes(dense, "backbone.layers.",
               {{"0.mixer.in_proj.bias", "[10304]"},
                {"0.mixer.out_proj.bias", "[2688]"},
                {"2.mixer.q_proj.weight", "[2048, 2688]"}});
}

TEST_CASE("gpt-oss stores each layer's experts in transposed slabs with biases") {
  const Inventory oss = model("gpt-oss-20b");
  const std::string at = "model.layers.23.";
  CHECK(oss.dims.slabs == SlabForm::columns_interleaved);
  CHECK(oss.expert_bytes() == 2ull * 24 * 32 * (2880 * 5760 + 5760 + 2880 * 2880 + 2880));
  CHECK(oss.tensors.front().spec.dtype == DType::bf16);  // the configuration names no dtype
  check_shapes(oss, at,
               {{"mlp.experts.gate_up_proj", "[32, 2880, 5760]"},
                {"mlp.experts.gate_up_proj_bias", "[32, 5760]"},
                {"mlp.experts.down_proj", "[32, 2880, 2880]"},
                {"mlp.experts.down_proj_bias", "[32, 2880]"},
                {"mlp.router.weight", "[32, 2880]"},
                {"mlp.router.bias", "[32]"},
                {"self_attn.sinks", "[64]"},
                {"self_attn.o_proj.bias", "[2880]"}});
  CHECK(kind(oss, at + "mlp.experts.gate_up_proj_bias") == "expert_bias_slab");
}

TEST_CASE("Qwen3.5-MoE has delta net layers, a doubled query projection and slabs") {
  const Inventory qwen = model("Qwen3.5-35B-A3B");
  const std::string linear = "model.language_model.layers.2.";
  const std::string full = "model.language_model.layers.3.";
  CHECK(qwen.dims.slabs == SlabForm::rows);
  check_shapes(qwen, linear,
               {{"linear_attn.in_proj_qkv.weight", "[8192, 2048]"},
                {"linear_attn.in_proj_z.weight", "[4096, 2048]"},
                {"linear_attn.in_proj_a.weight", "[32, 2048]"},
                {"linear_attn.in_proj_b.weight", "[32, 2048]"},
                {"linear_attn.conv1d.weight", "[8192, 1, 4]"},
                {"linear_attn.out_proj.weight", "[2048, 4096]"},
                {"linear_attn.norm.weight", "[128]"}});
  CHECK(find(qwen.tensors, linear + "linear_attn.A_log")->spec.dtype == DType::f32);
  CHECK(find(qwen.tensors, linear + "linear_attn.dt_bias")->spec.dtype == DType::bf16);
  CHECK(shape(qwen, linear + "self_attn.q_proj.weight") == "absent");
  check_shapes(qwen, full,
               {{"self_attn.q_proj.weight", "[8192, 2048]"},
                {"self_attn.o_proj.weight", "[2048, 4096]"},
                {"linear_attn.A_log", "absent"}});
  for (const std::string& at : {linear, full}) {
    check_shapes(qwen, at,
                 {{"mlp.experts.gate_up_proj", "[256, 1024, 2048]"},
                  {"mlp.experts.down_proj", "[256, 2048, 512]"},
                  {"mlp.shared_expert.gate_proj.weight", "[512, 2048]"},
                  {"mlp.shared_expert_gate.weight", "[1, 2048]"}});
  }

  SECTION("the interval counts where no list of layer types is given") {
    Json document = config("Qwen3.5-35B-A3B");
    document["text_config"]["layer_types"] = nullptr;
    CHECK(parse(document).parameters() == qwen.parameters());
    document["text_config"]["full_attention_interval"] = 2;
    CHECK(kind(parse(document), "model.language_model.layers.1.self_attn.q_proj.weight") == "attention_q");
  }
  SECTION("without the output gate the query projection is single") {
    Json document = config("Qwen3.5-35B-A3B");
    document["text_config"]["attn_output_gate"] = false;
    CHECK(shape(parse(document), full + "self_attn.q_proj.weight") == "[4096, 2048]");
  }
}

TEST_CASE("a nested language model is read from text_config alone") {
  const Inventory nested = model("nested_text_config_vl");
  CHECK(nested.architecture == "Qwen3VLMoeForConditionalGeneration");
  CHECK(nested.dims.hidden == 2048);
  CHECK(nested.dims.layers == 48);
  CHECK(nested.dims.vocab == 151936);
  CHECK(nested.dims.experts == 128);
  CHECK(nested.dims.expert_intermediate == 768);
  CHECK(nested.dims.slabs == SlabForm::columns);
  check_shapes(nested, "model.language_model.",
               {{"embed_tokens.weight", "[151936, 2048]"},
                {"layers.0.mlp.experts.gate_up_proj", "[128, 2048, 1536]"},
                {"layers.0.mlp.experts.down_proj", "[128, 768, 2048]"}});
  for (const Tensor& tensor : nested.tensors) {
    for (const std::uint64_t size : tensor.spec.shape) REQUIRE((size != 1152 && size != 4304));
  }
  Json document = config("nested_text_config_vl");
  document["text_config"].erase("dtype");
  document["torch_dtype"] = "float32";
  CHECK(parse(document).tensors.front().spec.dtype == DType::f32);
  document["text_config"]["dtype"] = "float16";
  CHECK(parse(document).tensors.front().spec.dtype == DType::f16);
}

TEST_CASE("null means not given, and newer field names mean the same") {
  const Inventory nulls = model("null_fields");
  CHECK(nulls.dims.head_dim == 128);
  CHECK(nulls.dims.kv_heads == 12);
  CHECK(nulls.dims.vocab == 32003);
  CHECK(shape(nulls, "lm_head.weight") == "[32003, 1536]");
  const Inventory newer = model("rope_parameters_v5");
  CHECK(newer.dims.tied_embeddings);
  CHECK(shape(newer, "lm_head.weight") == "absent");
  CHECK(newer.tensors.back().spec.name == "model.norm.weight");
  CHECK(newer.tensors.front().spec.dtype == DType::bf16);
}

TEST_CASE("the number of experts is taken from any of its three names") {
  const std::string field = GENERATE("num_experts", "num_local_experts", "n_routed_experts");
  CAPTURE(field);
  for (const std::string name :
       {"Qwen3-30B-A3B", "Mixtral-8x7B", "DeepSeek-V3", "GLM-4.5-Air", "gpt-oss-20b"}) {
    CAPTURE(name);
    Json document =
        patched(name, R"({"num_experts": null, "num_local_experts": null, "n_routed_experts": null})");
    document[field] = 24;
    CHECK(parse(document).dims.experts == 24);
  }
}

TEST_CASE("an unknown architecture is refused by name, with those that are supported") {
  const std::string message = refusal("tiny-Qwen3-MoE", R"({"architectures": ["GemmaForCausalLM"]})");
  CHECK(message.find("here/config.json: architecture \"GemmaForCausalLM\" is not supported") == 0);
  for (const std::string_view name : supported_architectures()) {
    CAPTURE(name);
    CHECK(message.find(name) != std::string::npos);
  }
  CHECK(refusal("tiny-Qwen3-MoE", R"({"architectures": null})").find("architectures is missing") !=
        std::string::npos);
  CHECK(refusal("tiny-Qwen3-MoE", R"({"architectures": []})").find("architectures is missing") !=
        std::string::npos);
  CHECK(refusal("tiny-Qwen3-MoE", R"({"architectures": [1]})").find("architectures holds 1") !=
        std::string::npos);
  CHECK(refusal(Json::array()).find("has to be an object") != std::string::npos);
}

TEST_CASE("unusable fields are refused with file, field and value") {
  struct Row {
    const char* name;
    const char* patch;
    const char* expected;
  };
  // Texts, and a loop: a table of Json values takes compilers minutes with sanitizers.
  static constexpr Row rows[] = {
      {"tiny-Qwen3-MoE", R"({"hidden_size": null})", "hidden_size is missing"},
      {"tiny-Qwen3-MoE", R"({"hidden_size": 0})", "hidden_size = 0 is not a whole number from 1 to 1048576"},
      {"tiny-Qwen3-MoE", R"({"hidden_size": -256})", "hidden_size = -256 is not"},
      {"tiny-Qwen3-MoE", R"({"hidden_size": 256.5})", "hidden_size = 256.5 is not"},
      {"tiny-Qwen3-MoE", R"({"hidden_size": "256"})", "hidden_size = \"256\" is not"},
      {"tiny-Qwen3-MoE", R"({"hidden_size": true})", "hidden_size = true is not"},
      {"tiny-Qwen3-MoE", R"({"hidden_size": [256]})", "hidden_size = a list is not"},
      {"tiny-Qwen3-MoE", R"({"num_hidden_layers": 1000000000})", "num_hidden_layers = 1000000000 is not"},
      {"tiny-Qwen3-MoE", R"({"num_hidden_layers": 18446744073709551615})",
       "num_hidden_layers = 18446744073709551615 is not"},
      {"tiny-Qwen3-MoE", R"({"vocab_size": 1099511627776})", "vocab_size = 1099511627776 is not"},
      {"tiny-Qwen3-MoE", R"({"num_experts": 0})", "num_experts = 0 is not"},
      {"tiny-Qwen3-MoE", R"({"num_experts": null})", "num_experts is missing, and so are num_local_experts"},
      {"tiny-Qwen3-MoE", R"({"n_routed_experts": 16})", "n_routed_experts = 16 disagrees with the 8 experts"},
      {"tiny-Qwen3-MoE", R"({"moe_intermediate_size": null})", "moe_intermediate_size is missing"},
      {"tiny-Qwen3-MoE", R"({"decoder_sparse_step": 0})", "decoder_sparse_step = 0 is not"},
      {"tiny-Qwen3-MoE", R"({"mlp_only_layers": 3})", "mlp_only_layers = 3 is not a list"},
      {"tiny-Qwen3-MoE", R"({"mlp_only_layers": [4]})", "mlp_only_layers holds 4, which is not"},
      {"tiny-Qwen3-MoE", R"({"attention_bias": "no"})", "attention_bias = \"no\" is neither true nor false"},
      {"tiny-Qwen3-MoE", R"({"torch_dtype": "int8"})", "torch_dtype = \"int8\" is none of"},
      {"tiny-Qwen3-MoE", R"({"dtype": "float32"})", "torch_dtype = \"bfloat16\" disagrees with dtype"},
      {"tiny-Qwen3-MoE", R"({"torch_dtype": 16})", "torch_dtype = 16 is not a text"},
      {"tiny-Qwen3-MoE", R"({"model_type": 3})", "model_type = 3 is not a text"},
      {"tiny-Qwen3-MoE", R"({"num_key_value_heads": 3})",
       "num_key_value_heads = 3 does not divide the 4 attention heads"},
      {"tiny-Qwen3-MoE", R"({"num_key_value_heads": 8})", "num_key_value_heads = 8 does not divide"},
      {"tiny-Qwen3-MoE", R"({"head_dim": null, "num_attention_heads": 6, "num_key_value_heads": 6})",
       "head_dim is missing, and hidden_size 256 does not divide by 6 heads"},
      {"tiny-Qwen3-MoE", R"({"num_hidden_layers": 1000, "num_experts": 8000})",
       "num_hidden_layers = 1000 with 8000 experts each makes more than 262144"},
      {"tiny-Qwen3-MoE", R"({"mlp_only_layers": [0, 1, 2, 3]})",
       "gives 8 experts, but makes every layer dense"},
      {"tiny-Qwen3-MoE", R"({"text_config": 5})", "text_config = 5 is not an object"},
      {"Llama-3.1-8B", R"({"mlp_bias": true})", "mlp_bias = true is not supported"},
      {"DeepSeek-V3", R"({"kv_lora_rank": null})", "kv_lora_rank is missing"},
      {"DeepSeek-V3", R"({"first_k_dense_replace": 62})", "first_k_dense_replace = 62 is not"},
      {"DeepSeek-V3", R"({"first_k_dense_replace": 61})", "makes every layer dense"},
      {"DeepSeek-V3", R"({"first_k_dense_replace": null})", "first_k_dense_replace is missing"},
      {"DeepSeek-V3", R"({"n_shared_experts": null})", "n_shared_experts is missing"},
      {"DeepSeek-V3", R"({"num_nextn_predict_layers": 1000})", "num_nextn_predict_layers = 1000 is not"},
      {"Nemotron-3-Nano-30B-A3B", R"({"hybrid_override_pattern": "MEX"})",
       "= \"MEX\" has letters other than"},
      {"Nemotron-3-Nano-30B-A3B", R"({"hybrid_override_pattern": "ME"})",
       "num_hidden_layers = 52 disagrees with the 2 layers of \"ME\""},
      {"Nemotron-3-Nano-30B-A3B", R"({"hybrid_override_pattern": null})",
       "hybrid_override_pattern is missing"},
      {"Nemotron-3-Nano-30B-A3B", R"({"n_groups": 7})", "n_groups = 7 does not divide the 64 Mamba heads"},
      {"Nemotron-3-Nano-30B-A3B", R"({"moe_latent_size": 1024})", "moe_latent_size = 1024 is not supported"},
      {"Nemotron-3-Nano-30B-A3B", R"({"num_nextn_predict_layers": 1})",
       "mtp_hybrid_override_pattern is missing"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name, row.patch);
    const std::string message = refusal(row.name, row.patch);
    CAPTURE(message);
    CHECK(message.find("here/config.json: ") == 0);
    CHECK(message.find(row.expected) != std::string::npos);
  }
  const std::string endless = fmt::format(R"({{"hybrid_override_pattern": "{}"}})", std::string(1025, 'M'));
  CHECK(refusal("Nemotron-3-Nano-30B-A3B", endless)
            .find("hybrid_override_pattern has 1025 layers, more than 1024") != std::string::npos);
}

TEST_CASE("unusable nested fields are refused with their path") {
  Json document = config("Qwen3.5-35B-A3B");
  Json& text = document["text_config"];
  std::string expected;
  SECTION("missing size") {
    text.erase("hidden_size");
    document["hidden_size"] = 2048;  // the outer one does not count
    expected = "text_config.hidden_size is missing";
  }
  SECTION("no nested part") {
    document["text_config"] = nullptr;
    expected = "text_config is missing; Qwen3_5MoeForConditionalGeneration keeps its sizes there";
  }
  SECTION("too few layer types") {
    text["layer_types"].erase(0);
    expected = "text_config.layer_types has 39 entries for 40 layers";
  }
  SECTION("an unknown layer type") {
    text["layer_types"][0] = "sliding_attention";
    expected = "text_config.layer_types holds \"sliding_attention\", which is neither";
  }
  SECTION("heads that do not group") {
    text["linear_num_key_heads"] = 12;
    expected = "text_config.linear_num_key_heads = 12 does not divide the 32 value heads";
  }
  SECTION("two opinions on tying") {
    text["tie_word_embeddings"] = true;
    expected = "text_config.tie_word_embeddings = true disagrees with the outer configuration";
  }
  const std::string message = refusal(document);
  CAPTURE(message);
  CHECK(message.find("here/config.json: " + expected) == 0);
}

TEST_CASE("experts never vanish from a configuration read as a dense family") {
  const std::string dense =
      GENERATE("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM");
  for (const std::string name : {"Qwen3-30B-A3B", "Mixtral-8x7B", "DeepSeek-V3"}) {
    CAPTURE(dense, name);
    CHECK(refusal(name, fmt::format(R"({{"architectures": ["{}"]}})", dense))
              .find(fmt::format("speaks of experts, but {} is a dense architecture", dense)) !=
          std::string::npos);
  }
  // A count of zero, as some tools write it, is not an expert.
  CHECK(changed("Qwen3-32B", R"({"num_experts": 0})").tensors.size() == 707);
}

TEST_CASE("files and folders that cannot be read are refused by name") {
  CHECK_THROWS_AS(load_inventory(tests_dir + "/cases/no_such_model"), refit::Error);
  CHECK_THROWS_AS(load_inventory(tests_dir + "/cases"), refit::Error);
  CHECK_THROWS_AS(load_inventory(tests_dir + "/cases/README.md"), refit::Error);
  CHECK(load_inventory(tests_dir + "/cases/configs/Qwen3-32B").tensors.size() == 707);
  CHECK(load_inventory(tests_dir + "/cases/configs/Qwen3-32B/").tensors.size() == 707);
  try {
    static_cast<void>(load_inventory(tests_dir + "/cases"));
  } catch (const refit::Error& error) {
    CHECK(std::string(error.what()).find("/cases/config.json") != std::string::npos);
  }
}

TEST_CASE("any value in any field gives an inventory or a refusal") {
  const Json values = refit::parse_json(
      R"([null, true, -1, 0, 1, 7, 1000000, 4611686018427387904, 18446744073709551615, 1e9, 1e300, "", "x",
          [1, "x"], [], {}, {"a": 1}])",
      "values");
  const std::string name = GENERATE(from_range(all_models));
  Json document = config(name);
  const bool nested = document.contains("text_config");
  Json& fields = nested ? document["text_config"] : document;
  // Small, so that a thousand inventories build quickly.
  for (const std::string count : {"num_experts", "num_local_experts", "n_routed_experts"}) {
    if (fields.contains(count)) fields[count] = 4;
  }
  int accepted = 0;
  int refused = 0;
  const std::vector<std::string> keys = [&] {
    std::vector<std::string> all;
    for (const auto& [key, value] : fields.items()) all.push_back(key);
    return all;
  }();
  for (const std::string& key : keys) {
    const Json before = fields[key];
    for (const Json& value : values) {
      CAPTURE(name, key, value.dump());
      fields[key] = value;
      try {
        const Inventory inventory = parse(document);
        REQUIRE(inventory.bytes() >= inventory.parameters());
        REQUIRE(inventory.bytes() < 1ull << 62);
        ++accepted;
      } catch (const refit::Error& error) {
        REQUIRE(error.kind() == refit::ErrorKind::input);
        REQUIRE(std::string(error.what()).find("here/config.json: ") == 0);
        ++refused;
      }
    }
    fields[key] = before;
  }
  CHECK(accepted > 0);
  CHECK(refused > 0);
}

TEST_CASE("layers with the same contents form a class") {
  CHECK(layer_classes(model("Qwen3-30B-A3B")).size() == 1);
  const auto deepseek = layer_classes(model("DeepSeek-V3"));
  REQUIRE(deepseek.size() == 2);
  CHECK(deepseek[0] == std::vector<int>{0, 1, 2});
  CHECK(deepseek[1].size() == 58);
  const auto nemotron = layer_classes(model("Nemotron-3-Nano-30B-A3B"));
  REQUIRE(nemotron.size() == 3);
  CHECK(nemotron[0].front() == 0);
  CHECK(nemotron[1].front() == 1);
  CHECK(nemotron[2] == std::vector<int>{5, 12, 19, 26, 33, 42});
  const auto qwen35 = layer_classes(model("Qwen3.5-35B-A3B"));
  REQUIRE(qwen35.size() == 2);
  CHECK(qwen35[0].size() == 30);
  CHECK(qwen35[1].front() == 3);
  // The same kinds in other shapes are another class.
  Inventory uneven = model("tiny-Qwen3-MoE");
  const auto router = std::find_if(uneven.tensors.begin(), uneven.tensors.end(), [](const Tensor& tensor) {
    return tensor.kind == Kind::router && tensor.layer == 2;
  });
  router->spec.shape[0] = 7;
  CHECK(layer_classes(uneven) == std::vector<std::vector<int>>{{0, 1, 3}, {2}});
}

TEST_CASE("a slice holds whole layers of every class, evenly, under their own numbers") {
  const Inventory deepseek = model("DeepSeek-V3");
  CHECK(layers_of(slice(deepseek, {.layers = 1})) == std::set<int>{3});
  CHECK(layers_of(slice(deepseek, {.layers = 2})) == std::set<int>{0, 3});
  CHECK(layers_of(slice(deepseek, {.layers = 5})) == std::set<int>{0, 1, 3, 4, 5});
  CHECK(layers_of(slice(deepseek, {.layers = 7})) == std::set<int>{0, 1, 2, 3, 4, 5, 6});
  const Inventory nemotron = model("Nemotron-3-Nano-30B-A3B");
  CHECK(layers_of(slice(nemotron, {.layers = 3})) == std::set<int>{0, 1, 5});
  CHECK(layers_of(slice(nemotron, {.layers = 6})) == std::set<int>{0, 1, 2, 3, 5, 12});

  const Inventory part = slice(deepseek, {.layers = 2});
  CHECK(part.dims.layers == 2);
  CHECK(part.dims.experts == 256);
  CHECK(part.tensors.front().spec == deepseek.tensors.front().spec);
  CHECK(part.tensors.back().spec == deepseek.tensors.back().spec);
  check_shapes(part, "model.",
               {{"norm.weight", "[7168]"}, {"layers.3.mlp.experts.255.up_proj.weight", "[2048, 7168]"}});
  CHECK(part.mtp.size() == deepseek.mtp.size());
  const auto inside = [&](const Tensor& tensor) {
    return find(deepseek.tensors, tensor.spec.name) != nullptr;
  };
  CHECK(std::all_of(part.tensors.begin(), part.tensors.begin() + 50, inside));
}

TEST_CASE("a slice of nothing, of everything or of more than there is keeps all") {
  const std::string name = GENERATE("Qwen3-32B", "tiny-Qwen3-MoE", "gpt-oss-20b");
  const Inventory whole = model(name);
  for (const Slice part : {Slice{}, Slice{64, 4096, 1 << 20}, Slice{.layers = whole.dims.layers}}) {
    const Inventory kept = slice(whole, part);
    CHECK(kept.tensors.size() == whole.tensors.size());
    CHECK(kept.bytes() == whole.bytes());
    CHECK(kept.dims.layers == whole.dims.layers);
    CHECK(kept.dims.experts == whole.dims.experts);
    CHECK(kept.dims.vocab == whole.dims.vocab);
  }
}

TEST_CASE("a slice of the experts keeps the first ones and the whole router") {
  const Inventory tiny = slice(model("tiny-Qwen3-MoE"), {.experts = 3});
  CHECK(tiny.dims.experts == 3);
  CHECK(tiny.tensors.size() == 3 + 4 * (8 + 1 + 3 * 3));
  for (const Tensor& tensor : tiny.tensors) REQUIRE(tensor.expert < 3);
  check_shapes(tiny, "model.layers.3.mlp.",
               {{"experts.2.up_proj.weight", "[128, 256]"}, {"gate.weight", "[8, 256]"}});

  const Inventory moonlight = slice(model("moonlight-16b-a3b"), {.layers = 2, .experts = 4});
  check_shapes(moonlight, "model.layers.1.mlp.",
               {{"gate.e_score_correction_bias", "[64]"}, {"shared_experts.up_proj.weight", "[2816, 2048]"}});

  const Inventory oss = slice(model("gpt-oss-20b"), {.layers = 1, .experts = 5});
  check_shapes(oss, "model.layers.0.mlp.",
               {{"experts.gate_up_proj", "[5, 2880, 5760]"},
                {"experts.down_proj_bias", "[5, 2880]"},
                {"router.weight", "[32, 2880]"},
                {"router.bias", "[32]"}});
}

TEST_CASE("experts are counted layer by layer") {
  // As in a model pruned to 8 and 6 experts.
  Inventory uneven = model("tiny-Qwen3-MoE");
  std::erase_if(uneven.tensors, [](const Tensor& tensor) { return tensor.layer == 1 && tensor.expert >= 6; });
  CHECK(layer_classes(uneven) == std::vector<std::vector<int>>{{0, 2, 3}, {1}});
  const auto experts_of = [](const Inventory& inventory, int layer) {
    std::set<int> experts;
    for (const Tensor& tensor : inventory.tensors) {
      if (tensor.layer == layer && tensor.expert >= 0) experts.insert(tensor.expert);
    }
    return experts.size();
  };
  const Inventory part = slice(uneven, {.experts = 7});
  CHECK(experts_of(part, 0) == 7);
  CHECK(experts_of(part, 1) == 6);

  Inventory slabs = model("gpt-oss-20b");
  for (Tensor& tensor : slabs.tensors) {
    if (tensor.layer == 1 && tensor.kind == Kind::expert_down_slab) tensor.spec.shape[0] = 26;
  }
  const Inventory kept = slice(slabs, {.experts = 28});
  check_shapes(
      kept, "model.layers.",
      {{"0.mlp.experts.down_proj", "[28, 2880, 2880]"}, {"1.mlp.experts.down_proj", "[26, 2880, 2880]"}});
}

TEST_CASE("a slice of the vocabulary shrinks embedding and head and nothing else") {
  const Inventory whole = model("tiny-Qwen3-MoE");
  const Inventory part = slice(whole, {.vocab_rows = 100});
  CHECK(part.dims.vocab == 100);
  REQUIRE(part.tensors.size() == whole.tensors.size());
  for (std::size_t i = 0; i < whole.tensors.size(); ++i) {
    const Tensor& tensor = part.tensors[i];
    if (tensor.kind == Kind::embedding || tensor.kind == Kind::lm_head) {
      CHECK(tensor.spec.shape == Shape{100, 256});
    } else {
      REQUIRE(tensor.spec == whole.tensors[i].spec);
    }
  }
}

TEST_CASE("a slice of a slice is the slice") {
  const Slice part{.layers = 3, .experts = 2, .vocab_rows = 64};
  const Inventory once = slice(model("Nemotron-3-Nano-30B-A3B"), part);
  const Inventory twice = slice(once, part);
  REQUIRE(once.tensors.size() == twice.tensors.size());
  for (std::size_t i = 0; i < once.tensors.size(); ++i) {
    REQUIRE(once.tensors[i].spec == twice.tensors[i].spec);
  }
}

TEST_CASE("recipes have the names that people type") {
  for (const auto& [name, kind] :
       {std::pair{"routed-experts", RecipeKind::routed_experts}, std::pair{"mlp", RecipeKind::mlp},
        std::pair{"all-linear", RecipeKind::all_linear}, std::pair{"none", RecipeKind::none}}) {
    CHECK(parse_recipe(name) == kind);
    CHECK(name_of(kind) == name);
  }
  CHECK_FALSE(parse_recipe("routed_experts"));
  CHECK_FALSE(parse_recipe(""));
  CHECK(default_recipe(model("Qwen3-30B-A3B")) == RecipeKind::routed_experts);
  CHECK(default_recipe(model("Qwen3-32B")) == RecipeKind::mlp);
}

namespace {

std::set<std::string> quantized(const Inventory& inventory, const Recipe& recipe) {
  const std::vector<bool> flags = select_quantized(inventory, recipe);
  REQUIRE(flags.size() == inventory.tensors.size());
  std::set<std::string> names;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (flags[i]) names.insert(inventory.tensors[i].spec.name);
  }
  return names;
}

}  // namespace

TEST_CASE("recipes select the published numbers of tensors") {
  const Inventory moe = model("Qwen3-30B-A3B");
  CHECK(quantized(moe, {RecipeKind::routed_experts}).size() == 48 * 128 * 3);
  CHECK(quantized(moe, {RecipeKind::mlp}).size() == 48 * 128 * 3);
  CHECK(quantized(moe, {RecipeKind::all_linear}).size() == 48 * (128 * 3 + 4));
  CHECK(quantized(moe, {RecipeKind::none}).empty());
  const Inventory dense = model("Qwen3-32B");
  CHECK(quantized(dense, {RecipeKind::routed_experts}).empty());
  CHECK(quantized(dense, {RecipeKind::mlp}).size() == 64 * 3);
  CHECK(quantized(dense, {RecipeKind::all_linear}).size() == 64 * 7);
  CHECK(quantized(model("DeepSeek-V3"), {RecipeKind::mlp}).size() == 3 * 3 + 58 * (256 * 3 + 3));
  CHECK(quantized(model("DeepSeek-V3"), {RecipeKind::all_linear}).size() ==
        61 * 5 + 3 * 3 + 58 * (256 * 3 + 3));
  CHECK(quantized(model("Nemotron-3-Nano-30B-A3B"), {RecipeKind::all_linear}).size() ==
        23 * 2 + 23 * (256 + 2) + 6 * 4);
  CHECK(quantized(model("gpt-oss-20b"), {RecipeKind::all_linear}).size() == 24 * (4 + 2));
  CHECK(quantized(model("Qwen3.5-35B-A3B"), {RecipeKind::all_linear}).size() ==
        30 * 3 + 10 * 4 + 40 * (2 + 3));
}

TEST_CASE("no recipe quantizes routers, embeddings, norms, biases, vectors or the head") {
  const std::string name = GENERATE(from_range(all_models));
  CAPTURE(name);
  for (const std::string& tensor : quantized(model(name), {RecipeKind::all_linear})) {
    CAPTURE(tensor);
    for (const std::string part :
         {"mlp.gate.", "block_sparse_moe.gate.", "mixer.gate.", "shared_expert_gate", "mlp.router", "embed",
          "lm_head", "norm", "bias", "A_log", ".D", "conv1d", "sinks", "in_proj_a", "in_proj_b"}) {
      REQUIRE(tensor.find(part) == std::string::npos);
    }
  }
}

TEST_CASE("every spelling of a router stays, and every projection beside it does not") {
  const Inventory qwen35 = model("Qwen3.5-35B-A3B");
  const auto linear = quantized(qwen35, {RecipeKind::all_linear});
  const std::string at = "model.language_model.layers.0.";
  CHECK(linear.contains(at + "mlp.experts.gate_up_proj"));
  CHECK(linear.contains(at + "mlp.experts.down_proj"));
  CHECK(linear.contains(at + "mlp.shared_expert.gate_proj.weight"));
  CHECK(linear.contains(at + "linear_attn.in_proj_qkv.weight"));
  CHECK(linear.contains(at + "linear_attn.in_proj_z.weight"));
  CHECK(linear.contains(at + "linear_attn.out_proj.weight"));
  CHECK_FALSE(linear.contains(at + "mlp.gate.weight"));
  CHECK_FALSE(linear.contains(at + "mlp.shared_expert_gate.weight"));

  const auto dense = quantized(model("DeepSeek-V3"), {RecipeKind::mlp});
  CHECK(dense.contains("model.layers.0.mlp.gate_proj.weight"));
  CHECK(dense.contains("model.layers.3.mlp.shared_experts.gate_proj.weight"));
  CHECK_FALSE(dense.contains("model.layers.3.mlp.gate.weight"));
  CHECK_FALSE(dense.contains("model.layers.3.self_attn.kv_b_proj.weight"));
  const auto latent = quantized(model("DeepSeek-V3"), {RecipeKind::all_linear});
  for (const std::string part : {"q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"}) {
    CHECK(latent.contains("model.layers.3.self_attn." + part + ".weight"));
  }

  const auto mamba = quantized(model("Nemotron-3-Nano-30B-A3B"), {RecipeKind::all_linear});
  CHECK(mamba.contains("backbone.layers.0.mixer.in_proj.weight"));
  CHECK(mamba.contains("backbone.layers.0.mixer.out_proj.weight"));
  CHECK_FALSE(mamba.contains("backbone.layers.0.mixer.conv1d.weight"));
  CHECK_FALSE(mamba.contains("backbone.layers.1.mixer.gate.weight"));
  const auto mixtral = quantized(model("Mixtral-8x7B"), {RecipeKind::all_linear});
  CHECK(mixtral.contains("model.layers.0.block_sparse_moe.experts.0.w1.weight"));
  CHECK_FALSE(mixtral.contains("model.layers.0.block_sparse_moe.gate.weight"));
}

TEST_CASE("ignore keywords take names out that contain them") {
  const Inventory tiny = model("tiny-Qwen3-MoE");
  const Recipe nemo{RecipeKind::all_linear, {"q_proj", "k_proj", "v_proj", "o_proj"}};
  CHECK(quantized(tiny, nemo) == quantized(tiny, {RecipeKind::routed_experts}));
  CHECK(quantized(tiny, {RecipeKind::routed_experts, {"layers.0.", "experts.7."}}).size() == 3 * 7 * 3);
  CHECK(quantized(tiny, {RecipeKind::routed_experts, {"no_such_name"}}).size() == 4 * 8 * 3);
  CHECK_THROWS_AS(select_quantized(tiny, {RecipeKind::mlp, {""}}), refit::Error);
}

TEST_CASE("every kind has a name of its own") {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(Kind::mtp_other); ++i) names.insert(name_of(static_cast<Kind>(i)));
  CHECK(names.size() == static_cast<std::size_t>(Kind::mtp_other) + 1);
  CHECK_FALSE(names.contains("unknown"));
}
