// Who holds what: known cases by hand, every refusal, and what has to hold for any model and parallelism.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/json.hpp"
#include "refit/model/split.hpp"
#include "refit/plan/plan.hpp"
#include "refit/reshard/layout.hpp"
#include "support/catch.hpp"
#include "support/error_of.hpp"

using namespace refit;
using namespace refit::reshard;
using model::Inventory;
using Ranks = std::vector<std::uint32_t>;

namespace {

const std::string configs = std::string(REFIT_TESTS_DIR) + "/cases/configs/";
const std::string scenario_models = std::string(REFIT_TESTS_DIR) + "/../scenarios/models/";

Inventory published(const std::string& name) {
  return model::load_inventory(configs + name);
}

/// The configuration of tests/cases with some of its fields replaced.
Inventory changed(const std::string& name, const std::string& patch) {
  Json document = read_json_file(configs + name + "/config.json");
  Json& fields = document.contains("text_config") ? document["text_config"] : document;
  fields.update(parse_json(patch, "patch"));
  return model::parse_inventory(document.dump(), "test config");
}

std::unique_ptr<Layout> megatron(const Inventory& model, const std::string& text) {
  return trainer_layout(model, parse_parallelism(text, Side::trainer), TrainerForm::megatron);
}
std::unique_ptr<Layout> hf(const Inventory& model, const std::string& text) {
  return trainer_layout(model, parse_parallelism(text, Side::trainer), TrainerForm::hf);
}
std::unique_ptr<Layout> generator(const Inventory& model, const std::string& text,
                                  const std::vector<bool>& quantized = {}) {
  return generator_layout(model, parse_parallelism(text, Side::generator), quantized);
}

/// One size given, without the checks of a text.
Parallelism sized(std::uint32_t Parallelism::*size, std::uint32_t value) {
  Parallelism parallelism;
  parallelism.*size = value;
  return parallelism;
}

std::uint32_t index_of(const Inventory& model, const std::string& name) {
  for (std::uint32_t i = 0; i < model.tensors.size(); ++i) {
    if (model.tensors[i].spec.name == name) return i;
  }
  FAIL("no tensor " + name);
  return 0;
}

/// "rows 0..128 cols 0..64 on 0 2" for each shard.
std::vector<std::string> shards_of(const Inventory& model, const Layout& layout, const std::string& name) {
  std::vector<Shard> shards;
  layout.shards(index_of(model, name), shards);
  std::vector<std::string> lines;
  for (const Shard& shard : shards) {
    const Box& box = shard.box;
    lines.push_back(fmt::format("rows {}..{} cols {}..{} on {}", box.row, box.row + box.rows, box.col,
                                box.col + box.cols, fmt::join(layout.groups()[shard.holders], " ")));
  }
  return lines;
}

/// "q_proj 0..16 at 0" for every box of a local tensor, in the order of its rows.
std::vector<std::string> rows_of(const Inventory& model, const Local& local, const std::string& name) {
  std::map<std::uint64_t, std::string> lines;
  for (const Placed& placed : local.placed) {
    if (local.tensors[placed.local].name != name) continue;
    const std::string& source = model.tensors[placed.tensor].spec.name;
    const std::size_t suffix = source.rfind('.'), module = source.rfind('.', suffix - 1) + 1;
    lines[placed.local_row] = fmt::format("{} {}..{} at {}", source.substr(module, suffix - module),
                                          placed.box.row, placed.box.row + placed.box.rows, placed.local_row);
  }
  std::vector<std::string> result;
  for (auto& [row, line] : lines) result.push_back(line);
  return result;
}

std::string shape_of(const std::vector<TensorSpec>& tensors, const std::string& name) {
  for (const TensorSpec& tensor : tensors) {
    if (tensor.name == name) return refit::to_string(tensor.shape);
  }
  return "absent";
}

bool has_note(const Layout& layout, const std::string& part) {
  return std::any_of(layout.notes().begin(), layout.notes().end(),
                     [&](const std::string& note) { return note.find(part) != note.npos; });
}

using Lines = std::vector<std::string>;

// Four layers of 8 heads of 16, 4 key-value heads, hidden size 64, 8 experts.
const std::string kGqa = R"({"architectures":["Qwen3MoeForCausalLM"],"model_type":"qwen3_moe",
  "num_hidden_layers":4,"hidden_size":64,"num_attention_heads":8,"num_key_value_heads":4,"head_dim":16,
  "intermediate_size":96,"moe_intermediate_size":32,"num_experts":8,"num_experts_per_tok":2,
  "decoder_sparse_step":1,"mlp_only_layers":[],"vocab_size":1000,"torch_dtype":"bfloat16",
  "tie_word_embeddings":false})";

Inventory gqa(const std::string& patch = "{}") {
  Json document = parse_json(kGqa, "test config");
  document.update(parse_json(patch, "patch"));
  return model::parse_inventory(document.dump(), "test config");
}

const std::string at0 = "model.layers.0.";

}  // namespace

TEST_CASE("Megatron interleaves query, key and value rows by key-value head") {
  const Inventory model = gqa();
  const auto layout = megatron(model, "tp=2");
  CHECK(shards_of(model, *layout, at0 + "self_attn.q_proj.weight") ==
        Lines{"rows 0..64 cols 0..64 on 0", "rows 64..128 cols 0..64 on 1"});
  CHECK(shards_of(model, *layout, at0 + "self_attn.k_proj.weight") ==
        Lines{"rows 0..32 cols 0..64 on 0", "rows 32..64 cols 0..64 on 1"});

  const Local local = layout->local(1);
  const std::string name = "decoder.layers.0.self_attention.linear_qkv.weight";
  CHECK(shape_of(local.tensors, name) == "[128, 64]");
  CHECK(rows_of(model, local, name) == Lines{"q_proj 64..96 at 0", "k_proj 32..48 at 32",
                                             "v_proj 32..48 at 48", "q_proj 96..128 at 64",
                                             "k_proj 48..64 at 96", "v_proj 48..64 at 112"});
  CHECK(shape_of(local.tensors, "decoder.layers.0.self_attention.linear_proj.weight") == "[64, 64]");
}

TEST_CASE("Megatron interleaves biases as it does weights") {
  const Inventory model = gqa(R"({"attention_bias":true})");
  const Local local = megatron(model, "tp=4")->local(2);
  CHECK(rows_of(model, local, "decoder.layers.3.self_attention.linear_qkv.bias") ==
        Lines{"q_proj 64..96 at 0", "k_proj 32..48 at 32", "v_proj 32..48 at 48"});
  CHECK(shape_of(local.tensors, "decoder.layers.3.self_attention.linear_qkv.bias") == "[64]");
  CHECK(shape_of(local.tensors, "decoder.layers.3.self_attention.linear_proj.bias") == "[64]");
}

TEST_CASE("query rows and the rows of attention's output gate are apart in linear_qkv") {
  const Inventory model =
      changed("Qwen3.5-35B-A3B",
              R"({"num_hidden_layers":4,"layer_types":null,"num_attention_heads":4,"head_dim":8})");
  const Local local = megatron(model, "")->local(0);
  // Two key-value heads; a head of q_proj is 8 query rows, then 8 gate rows.
  CHECK(rows_of(model, local, "decoder.layers.3.self_attention.linear_qkv.weight") ==
        Lines{"q_proj 0..8 at 0", "q_proj 16..24 at 8", "q_proj 8..16 at 16", "q_proj 24..32 at 24",
              "k_proj 0..8 at 32", "v_proj 0..8 at 40", "q_proj 32..40 at 48", "q_proj 48..56 at 56",
              "q_proj 40..48 at 64", "q_proj 56..64 at 72", "k_proj 8..16 at 80", "v_proj 8..16 at 88"});
}

TEST_CASE("Megatron keeps gate rows above up rows, of each expert and of dense layers") {
  const Inventory model = gqa(R"({"mlp_only_layers":[0]})");
  const auto layout = megatron(model, "tp=2,ep=2,etp=2,dp=2");
  const Local local = layout->local(3);  // tp 1, ep 1, etp 1
  CHECK(rows_of(model, local, "decoder.layers.0.mlp.linear_fc1.weight") ==
        Lines{"gate_proj 48..96 at 0", "up_proj 48..96 at 48"});
  CHECK(rows_of(model, local, "decoder.layers.1.mlp.experts.linear_fc1.weight0") ==
        Lines{"gate_proj 16..32 at 0", "up_proj 16..32 at 16"});
  CHECK(shape_of(local.tensors, "decoder.layers.1.mlp.experts.linear_fc2.weight3") == "[64, 16]");
  CHECK(shape_of(local.tensors, "decoder.layers.1.mlp.experts.linear_fc2.weight4") == "absent");
  CHECK(shards_of(model, *layout, "model.layers.1.mlp.experts.4.down_proj.weight") ==
        Lines{"rows 0..64 cols 0..16 on 2", "rows 0..64 cols 16..32 on 3"});
}

TEST_CASE("Megatron's norms have the names of the linear layers that they are fused with") {
  const auto names_of = [](const Inventory& model) {
    std::set<std::string> names;
    for (const TensorSpec& tensor : megatron(model, "")->local(0).tensors) names.insert(tensor.name);
    return names;
  };
  const auto check_names = [](const std::set<std::string>& names, const Lines& expected) {
    for (const std::string& name : expected) {
      CAPTURE(name);
      CHECK(names.contains(name));
    }
  };
  check_names(names_of(gqa(R"({"mlp_only_layers":[0]})")),
              {"embedding.word_embeddings.weight", "output_layer.weight", "decoder.final_layernorm.weight",
               "decoder.layers.0.self_attention.linear_qkv.layer_norm_weight",
               "decoder.layers.0.self_attention.q_layernorm.weight",
               "decoder.layers.0.self_attention.k_layernorm.weight",
               "decoder.layers.0.mlp.linear_fc1.layer_norm_weight", "decoder.layers.0.mlp.linear_fc2.weight",
               "decoder.layers.1.pre_mlp_layernorm.weight", "decoder.layers.1.mlp.router.weight"});
  check_names(
      names_of(model::slice(published("DeepSeek-V3"), {.layers = 2, .experts = 2})),
      {"decoder.layers.0.input_layernorm.weight", "decoder.layers.0.self_attention.linear_q_down_proj.weight",
       "decoder.layers.0.self_attention.linear_q_up_proj.weight",
       "decoder.layers.0.self_attention.linear_q_up_proj.layer_norm_weight",
       "decoder.layers.0.self_attention.linear_kv_down_proj.weight",
       "decoder.layers.0.self_attention.linear_kv_up_proj.weight",
       "decoder.layers.0.self_attention.linear_kv_up_proj.layer_norm_weight",
       "decoder.layers.0.self_attention.linear_proj.weight",
       "decoder.layers.0.mlp.linear_fc1.layer_norm_weight", "decoder.layers.1.mlp.router.expert_bias",
       "decoder.layers.1.mlp.shared_experts.linear_fc1.weight",
       "decoder.layers.1.mlp.shared_experts.linear_fc2.weight"});
  check_names(
      names_of(model::slice(published("Qwen3.5-35B-A3B"), {.layers = 4, .experts = 2})),
      {"decoder.layers.0.mlp.experts.linear_fc1.weight1", "decoder.layers.0.mlp.shared_experts.gate_weight",
       "model.language_model.layers.0.linear_attn.in_proj_qkv.weight",
       "model.language_model.layers.0.input_layernorm.weight"});
  check_names(names_of(model::slice(published("Nemotron-3-Nano-30B-A3B"), {.layers = 3, .experts = 2})),
              {"decoder.final_norm.weight", "backbone.layers.0.mixer.in_proj.weight",
               "backbone.layers.0.norm.weight"});
  check_names(names_of(model::slice(published("gpt-oss-20b"), {.layers = 1})),
              {"decoder.layers.0.mlp.router.bias", "model.layers.0.mlp.experts.gate_up_proj",
               "decoder.layers.0.self_attention.core_attention.softmax_offset"});
}

TEST_CASE("Megatron's router correction bias stays FP32") {
  const Local local =
      megatron(model::slice(published("DeepSeek-V3"), {.layers = 2, .experts = 2}), "tp=2")->local(0);
  const auto bias = std::find_if(local.tensors.begin(), local.tensors.end(), [](const TensorSpec& tensor) {
    return tensor.name == "decoder.layers.1.mlp.router.expert_bias";
  });
  REQUIRE(bias != local.tensors.end());
  CHECK(bias->dtype == DType::f32);
}

TEST_CASE("a slab of experts becomes Megatron's tensors of single experts") {
  const Inventory model = model::slice(published("Qwen3.5-35B-A3B"), {.layers = 4, .experts = 8});
  const std::string slab = "model.language_model.layers.0.mlp.experts.gate_up_proj";
  const auto whole = megatron(model, "ep=2");
  CHECK(shards_of(model, *whole, slab) ==
        Lines{"rows 0..4096 cols 0..2048 on 0", "rows 4096..8192 cols 0..2048 on 1"});
  const Local local = whole->local(1);
  CHECK(shape_of(local.tensors, "decoder.layers.0.mlp.experts.linear_fc1.weight3") == "[1024, 2048]");
  CHECK(rows_of(model, local, "decoder.layers.0.mlp.experts.linear_fc1.weight3").size() == 1);

  // Two ranks for each expert: half of its gate rows, half of its up rows.
  const auto divided = megatron(model, "ep=4,etp=2");
  const Local part = divided->local(3);  // ep 1, etp 1: experts 2 and 3
  CHECK(shape_of(part.tensors, "decoder.layers.0.mlp.experts.linear_fc1.weight1") == "[512, 2048]");
  std::vector<Lines> rows;
  for (const Placed& placed : part.placed) {
    if (part.tensors[placed.local].name != "decoder.layers.0.mlp.experts.linear_fc1.weight1") continue;
    rows.push_back(
        {std::to_string(placed.box.row), std::to_string(placed.box.rows), std::to_string(placed.local_row)});
  }
  CHECK(rows == std::vector<Lines>{{"3328", "256", "0"}, {"3840", "256", "256"}});
}

TEST_CASE("a generator replicates key-value heads that are fewer than its ranks") {
  const Inventory model = gqa();
  const auto layout = generator(model, "tp=8");
  CHECK(shards_of(model, *layout, at0 + "self_attn.v_proj.weight") ==
        Lines{"rows 0..16 cols 0..64 on 0 1", "rows 16..32 cols 0..64 on 2 3",
              "rows 32..48 cols 0..64 on 4 5", "rows 48..64 cols 0..64 on 6 7"});
  CHECK(has_note(*layout, "generator: 4 key-value heads are fewer than tp=8: each is on 2 ranks"));
  CHECK(layout->local(5).model.dims.kv_heads == 1);
  CHECK(layout->local(5).model.dims.heads == 1);
  check_input_error([&] { (void)megatron(model, "tp=8"); }, at0 + "self_attn.k_proj.weight [64, 64]",
                    "4 key-value heads do not divide by tp=8", "no trainer replicates them");
}

TEST_CASE("both sides pad a vocabulary, each in its own way, and padding belongs to no box") {
  const Inventory model = gqa(R"({"vocab_size":151937})");
  const std::string embedding = "model.embed_tokens.weight";
  const auto trainer = megatron(model, "tp=4");  // 128 * 4 = 512: 152064 / 4
  CHECK(shards_of(model, *trainer, embedding) ==
        Lines{"rows 0..38016 cols 0..64 on 0", "rows 38016..76032 cols 0..64 on 1",
              "rows 76032..114048 cols 0..64 on 2", "rows 114048..151937 cols 0..64 on 3"});
  CHECK(shape_of(trainer->local(3).tensors, "output_layer.weight") == "[38016, 64]");
  CHECK(has_note(*trainer, "the vocabulary's 151937 rows are padded to 152064, 38016 a rank"));

  const auto engine = generator(model, "tp=4");  // 152000 / 4
  CHECK(shards_of(model, *engine, embedding).back() == "rows 114000..151937 cols 0..64 on 3");
  const Local local = engine->local(3);
  CHECK(shape_of(local.tensors, embedding) == "[38000, 64]");
  CHECK(local.model.tensors.front().spec.shape == Shape{37937, 64});
  CHECK(local.model.dims.vocab == 37937);

  // The checkpoint's own tensors are not padded: torch.chunk.
  CHECK(shape_of(hf(model, "tp=4")->local(3).tensors, embedding) == "[37982, 64]");
}

TEST_CASE("a rank of nothing but vocabulary padding still keeps its tensor") {
  const Inventory model = gqa(R"({"vocab_size":130,"num_key_value_heads":8})");
  const Local local = megatron(model, "tp=4")->local(3);
  CHECK(shape_of(local.tensors, "embedding.word_embeddings.weight") == "[128, 64]");
  CHECK(rows_of(model, local, "embedding.word_embeddings.weight").empty());

  const Inventory small = gqa(R"({"vocab_size":70})");  // 128 / 4
  const Local engine = generator(small, "tp=4,ep=4")->local(3);
  CHECK(shape_of(engine.tensors, "lm_head.weight") == "[32, 64]");
  CHECK(engine.model.tensors.back().spec.shape == Shape{0, 64});
  plan::Request request;
  request.model = engine.model;
  request.moe_layout = plan::MoeLayout::checkpoint;
  CHECK(plan::build(request).destinations.back().spec.shape == Shape{0, 64});
}

TEST_CASE("layers that do not divide by the stages are divided as each side does it") {
  const Inventory model = model::slice(published("DeepSeek-V3"), {.layers = 61, .experts = 1});
  const auto trainer = megatron(model, "pp=8");
  CHECK(trainer->parallelism().pp_layers == Ranks{8, 8, 8, 8, 8, 7, 7, 7});
  CHECK(has_note(*trainer, "trainer: 61 layers over pp=8 stages: 8, 8, 8, 8, 8, 7, 7, 7"));
  CHECK(generator(model, "pp=8")->parallelism().pp_layers == Ranks{7, 7, 8, 8, 8, 8, 8, 7});
  const std::string norm = "model.layers.40.input_layernorm.weight";
  CHECK(shards_of(model, *trainer, norm) == Lines{"rows 0..7168 cols 0..1 on 5"});
  // Megatron counts a stage's layers from 0.
  const Local local = trainer->local(5);
  CHECK(shape_of(local.tensors, "decoder.layers.0.input_layernorm.weight") == "[7168]");
  CHECK(shape_of(local.tensors, "decoder.layers.6.input_layernorm.weight") == "[7168]");
  CHECK(shape_of(local.tensors, "decoder.layers.7.input_layernorm.weight") == "absent");
  CHECK(shape_of(local.tensors, "output_layer.weight") == "absent");
  CHECK(shape_of(trainer->local(7).tensors, "output_layer.weight") == "[129280, 7168]");
}

TEST_CASE("layers go to the stages that were asked for") {
  const Inventory model = gqa();
  const auto layout = megatron(model, "tp=2,pp-layers=1:3");
  CHECK(shards_of(model, *layout, "model.layers.1.self_attn.q_norm.weight") ==
        Lines{"rows 0..16 cols 0..1 on 2 3"});
  check_input_error([&] { (void)megatron(model, "pp-layers=2:1"); }, "pp-layers=2:1 are 3 layers",
                    "the model has 4");
  check_input_error([&] { (void)megatron(model, "pp=5"); }, "pp=5 stages are more than the model's 4 layers");
}

TEST_CASE("a slice of a model is divided by the layers that it has") {
  const Inventory model = model::slice(gqa(), {.layers = 2});
  CHECK(megatron(model, "pp=2")->parallelism().pp_layers == Ranks{1, 1});
}

TEST_CASE("a tied embedding is on the first and on the last stage") {
  const Inventory model = gqa(R"({"tie_word_embeddings":true})");
  const auto trainer = megatron(model, "tp=2,pp=2");
  CHECK(shards_of(model, *trainer, "model.embed_tokens.weight") ==
        Lines{"rows 0..512 cols 0..64 on 0 2", "rows 512..1000 cols 0..64 on 1 3"});
  CHECK(shape_of(trainer->local(0).tensors, "embedding.word_embeddings.weight") == "[512, 64]");
  CHECK(shape_of(trainer->local(0).tensors, "output_layer.weight") == "absent");
  CHECK(shape_of(trainer->local(2).tensors, "output_layer.weight") == "[512, 64]");
  CHECK(has_note(*trainer, "the first and the last stage hold it"));
  const auto engine = generator(model, "pp=3");
  CHECK(shards_of(model, *engine, "model.embed_tokens.weight") == Lines{"rows 0..1000 cols 0..64 on 0 2"});
  CHECK(shape_of(engine->local(2).tensors, "model.embed_tokens.weight") == "[1024, 64]");
}

TEST_CASE("expert parallelism has its own replicas") {
  const Inventory model = gqa();
  const auto layout = megatron(model, "tp=2,dp=4,ep=4");  // edp = 2
  CHECK(layout->parallelism().edp() == 2);
  CHECK(shards_of(model, *layout, at0 + "mlp.experts.5.up_proj.weight") ==
        Lines{"rows 0..32 cols 0..64 on 2 6"});
  CHECK(shards_of(model, *layout, at0 + "self_attn.o_proj.weight") ==
        Lines{"rows 0..64 cols 0..64 on 0 2 4 6", "rows 0..64 cols 64..128 on 1 3 5 7"});
  CHECK(shards_of(model, *layout, at0 + "mlp.gate.weight") ==
        Lines{"rows 0..8 cols 0..64 on 0 1 2 3 4 5 6 7"});
}

TEST_CASE("FSDP divides dimension 0 as torch.chunk does, and HSDP repeats it") {
  const Inventory model = gqa(R"({"vocab_size":10})");
  const auto layout = hf(model, "fsdp=4,dp=2");
  CHECK(shards_of(model, *layout, "lm_head.weight") ==
        Lines{"rows 0..3 cols 0..64 on 0 4", "rows 3..6 cols 0..64 on 1 5", "rows 6..9 cols 0..64 on 2 6",
              "rows 9..10 cols 0..64 on 3 7"});
  CHECK(shape_of(layout->local(7).tensors, "lm_head.weight") == "[1, 64]");
  // 10 rows over 7 ranks: five of 2, none for the last two.
  CHECK(shape_of(hf(model, "fsdp=7")->local(5).tensors, "lm_head.weight") == "absent");
  // Tensors of three dimensions are cut between matrices, never inside one.
  const Inventory slabs = model::slice(published("Qwen3.5-35B-A3B"), {.layers = 1, .experts = 5});
  const std::string down = "model.language_model.layers.0.mlp.experts.down_proj";
  CHECK(shards_of(slabs, *hf(slabs, "fsdp=2"), down) ==
        Lines{"rows 0..6144 cols 0..512 on 0", "rows 6144..10240 cols 0..512 on 1"});
  CHECK(shape_of(hf(slabs, "fsdp=2")->local(1).tensors, down) == "[2, 2048, 512]");
  check_input_error([&] { (void)megatron(model, "fsdp=4"); }, "fsdp=4 keeps the checkpoint's own tensors");
  check_input_error([&] { (void)generator_layout(model, sized(&Parallelism::fsdp, 2), {}); }, "fsdp");
}

TEST_CASE("what does not divide is refused with tensor and numbers") {
  const Inventory model = gqa();
  const auto refused = [&](const Inventory& which, const std::string& text, auto... parts) {
    check_input_error([&] { (void)megatron(which, text); }, "trainer", parts...);
  };
  refused(gqa(R"({"num_attention_heads":6,"num_key_value_heads":2})"), "tp=4",
          at0 + "self_attn.q_proj.weight", "6 attention heads do not divide by tp=4");
  refused(model, "ep=3", "8 experts a layer do not divide by ep=3");
  refused(published("Qwen3-32B"), "ep=2", "0 experts a layer do not divide by ep=2");
  refused(gqa(R"({"moe_intermediate_size":48})"), "ep=4,etp=32", "mlp.experts.0.gate_proj.weight [48, 64]",
          "its 48 rows do not divide by etp=32");
  refused(gqa(R"({"mlp_only_layers":[0],"intermediate_size":66})"), "tp=4,etp=1",
          at0 + "mlp.gate_proj.weight [66, 64]", "its 66 rows do not divide by tp=4");
  refused(published("Nemotron-3-Nano-30B-A3B"), "tp=2", "mixer.dt_bias", "kind mamba", "is not known here");
  refused(published("Qwen3.5-35B-A3B"), "tp=2", "linear_attn", "kind attention_other", "is not known here");
  refused(published("gpt-oss-20b"), "ep=4,etp=2,dp=8", "mlp.experts.gate_up_proj", "kind expert_gate_up_slab",
          "etp=1");
  const Inventory slabs = model::slice(published("Qwen3.5-35B-A3B"), {.layers = 1, .experts = 4});
  refused(slabs, "etp=3,dp=3", "mlp.experts.gate_up_proj [4, 1024, 2048]",
          "its 512 gate rows an expert do not divide by etp=3");
  check_input_error([&] { (void)generator(gqa(R"({"num_attention_heads":24,"vocab_size":960})"), "tp=6"); },
                    "generator", "4 key-value heads neither divide by tp=6 nor divide it");
  check_input_error(
      [&] {
        (void)generator(gqa(R"({"num_attention_heads":3,"num_key_value_heads":3,
                                               "vocab_size":64})"),
                        "tp=3");
      },
      "a vocabulary of 64 rows, padded to 64, does not divide by tp=3");
  check_input_error([&] { (void)megatron(model, "")->local(1); }, "rank 1 is not one of 1 ranks");
  check_input_error([&] { (void)generator(model, "", {true}); }, "1 flags");
  check_input_error([&] { (void)trainer_layout(model, sized(&Parallelism::ep, 4), TrainerForm::hf); },
                    "etp=1 times ep=4 is 4");
  check_input_error([&] { (void)trainer_layout(model, sized(&Parallelism::tp, 0), TrainerForm::megatron); },
                    "tp is 0");
}

TEST_CASE("quantized weights are never cut through a block") {
  const Inventory model = gqa(R"({"mlp_only_layers":[0]})");
  const std::vector<bool> quantized =
      model::select_quantized(model, {.kind = model::RecipeKind::routed_experts});
  // 32 columns of down_proj over two ranks.
  check_input_error([&] { (void)generator(model, "tp=2", quantized); },
                    "mlp.experts.0.down_proj.weight [64, 32]",
                    "16 columns a rank (32 over etp=2) are no multiple of 32");
  CHECK_NOTHROW(generator(model, "tp=2,ep=2", quantized));
  CHECK_NOTHROW(generator(model, "tp=2"));
  const Inventory slabs = model::slice(published("Qwen3.5-35B-A3B"), {.layers = 1, .experts = 4});
  check_input_error([&] { (void)generator(slabs, "etp=32,dp=32", model::select_quantized(slabs, {})); },
                    "experts.down_proj", "16 columns a rank (512 over etp=32)");
}

TEST_CASE("a generator rank's model gives the parameters of its engine") {
  const auto parameters = [](const Local& local, model::RecipeKind recipe) {
    plan::Request request;
    request.model = local.model;
    request.recipe.kind = recipe;
    std::map<std::string, std::string> shapes;
    for (const plan::Destination& destination : plan::build(request).destinations) {
      shapes[destination.spec.name] = refit::to_string(destination.spec.shape);
    }
    return shapes;
  };
  using model::RecipeKind;
  {
    const Inventory model = model::load_inventory(scenario_models + "qwen3-30b-a3b");
    const Local local = generator(model, "tp=2,dp=2,pp=2,ep=4")->local(6);
    auto shapes = parameters(local, RecipeKind::routed_experts);
    CHECK(shapes["model.layers.24.mlp.experts.w13_weight"] == "[32, 1536, 2048]");
    CHECK(shapes["model.layers.47.mlp.experts.w2_weight"] == "[32, 2048, 768]");
    CHECK(shapes["model.layers.24.self_attn.qkv_proj.weight"] == "[2560, 2048]");
    CHECK(shapes["lm_head.weight"] == "[75968, 2048]");
    CHECK(!shapes.contains("model.layers.23.mlp.experts.w13_weight"));
    CHECK(!shapes.contains("model.embed_tokens.weight"));
    CHECK(local.model.dims.layers == 24);
    CHECK(local.model.dims.experts == 32);
    CHECK(local.model.dims.expert_intermediate == 768);
  }
  {
    auto shapes =
        parameters(generator(model::load_inventory(scenario_models + "qwen3-30b-a3b"), "tp=2")->local(1),
                   RecipeKind::routed_experts);
    CHECK(shapes["model.layers.0.mlp.experts.w13_weight"] == "[128, 768, 2048]");
    CHECK(shapes["model.layers.0.mlp.experts.w2_weight"] == "[128, 2048, 384]");
  }
  {
    auto shapes = parameters(
        generator(model::load_inventory(scenario_models + "qwen3-32b"), "tp=8")->local(3), RecipeKind::mlp);
    CHECK(shapes["model.layers.63.mlp.gate_up_proj.weight"] == "[6400, 5120]");
    CHECK(shapes["model.layers.63.self_attn.qkv_proj.weight"] == "[1280, 5120]");
  }
  {
    const Inventory model = model::slice(published("DeepSeek-V3"), {.layers = 4, .experts = 16});
    auto shapes = parameters(generator(model, "tp=4,ep=8")->local(5), RecipeKind::all_linear);
    CHECK(shapes["model.layers.3.mlp.experts.w13_weight"] == "[2, 4096, 7168]");
    CHECK(shapes["model.layers.0.self_attn.q_b_proj.weight"] == "[6144, 1536]");
    CHECK(shapes["model.layers.0.self_attn.q_a_proj.weight"] == "[1536, 7168]");
    CHECK(shapes["model.layers.3.mlp.shared_experts.down_proj.weight"] == "[7168, 512]");
  }
  {
    const Inventory model = model::slice(model::load_inventory(scenario_models + "nemotron-3-nano-30b-a3b"),
                                         {.layers = 6, .experts = 8});
    const Local local = generator(model, "ep=4")->local(2);
    plan::Request request;
    request.model = local.model;
    request.moe_layout = plan::MoeLayout::checkpoint;
    bool seen = false;
    for (const plan::Destination& destination : plan::build(request).destinations) {
      if (!destination.spec.name.ends_with(".experts.w13_weight")) continue;
      CHECK(destination.spec.shape == Shape{2, 1856, 2688});
      seen = true;
    }
    CHECK(seen);
  }
  {
    const Inventory model = model::slice(published("Qwen3.5-35B-A3B"), {.layers = 4, .experts = 8});
    auto shapes = parameters(generator(model, "ep=2,etp=2")->local(1), RecipeKind::routed_experts);
    CHECK(shapes["model.language_model.layers.0.mlp.experts.w13_weight"] == "[4, 512, 2048]");
    CHECK(shapes["model.language_model.layers.0.mlp.experts.w2_weight"] == "[4, 2048, 256]");
  }
  {
    const Inventory model = model::load_inventory(scenario_models + "tiny-moe");
    const auto layout = generator(model, "tp=2,ep=2");
    for (std::uint32_t rank = 0; rank < layout->ranks(); ++rank) {
      CHECK_NOTHROW(parameters(layout->local(rank), RecipeKind::none));
    }
  }
}

namespace {

/// Boxes of one tensor cover it once, in order.
void check_shards(const Inventory& model, const Layout& layout, std::uint32_t tensor,
                  const std::vector<Shard>& shards) {
  const TensorSpec& spec = model.tensors[tensor].spec;
  std::uint64_t elements = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const Box& box = shards[i].box;
    elements += box.elements();
    bool right = !box.empty() && box.row + box.rows <= spec.rows() && box.col + box.cols <= spec.cols() &&
                 shards[i].holders < layout.groups().size();
    // The sum of elements is right, so an overlap anywhere leaves a hole somewhere; neighbours show both.
    if (i > 0) {
      const Box& before = shards[i - 1].box;
      right = right && std::tuple(before.row, before.col) < std::tuple(box.row, box.col) &&
              intersection(before, box).empty();
    }
    if (!right) FAIL_CHECK("shard " << i << " of " << spec.name << " is wrong");
  }
  if (elements != num_elements(spec.shape)) FAIL_CHECK("shards of " << spec.name << " do not cover it");
}

/// What `rank` holds by shards is what it keeps, once, and nothing else is kept.
void check_local(const Inventory& model, const Layout& layout, std::uint32_t rank,
                 const std::vector<std::vector<Shard>>& shards) {
  const Local local = layout.local(rank);
  std::vector<std::vector<Box>> kept(model.tensors.size());
  std::vector<std::vector<std::pair<std::uint64_t, std::uint64_t>>> rows(local.tensors.size());
  std::vector<bool> vocabulary(local.tensors.size());
  std::tuple<std::uint32_t, std::uint64_t> last{0, 0};
  for (const Placed& placed : local.placed) {
    REQUIRE(placed.local < local.tensors.size());
    const TensorSpec& mine = local.tensors[placed.local];
    CHECK(mine.dtype == model.tensors[placed.tensor].spec.dtype);
    if (placed.local_col != 0 || placed.box.cols != mine.cols()) FAIL_CHECK(mine.name << ": wrong columns");
    const std::tuple now{placed.tensor, placed.box.row};
    if (now < last) FAIL_CHECK(mine.name << " is out of order");
    last = now;
    kept[placed.tensor].push_back(placed.box);
    rows[placed.local].emplace_back(placed.local_row, placed.local_row + placed.box.rows);
    vocabulary[placed.local] = model.tensors[placed.tensor].kind == model::Kind::embedding ||
                               model.tensors[placed.tensor].kind == model::Kind::lm_head;
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].empty()) continue;  // vocabulary padding alone
    std::sort(rows[i].begin(), rows[i].end());
    std::uint64_t end = 0;
    for (const auto& [from, to] : rows[i]) {
      if (from != end) FAIL_CHECK(local.tensors[i].name << ": row " << end << " is held twice or never");
      end = to;
    }
    const std::uint64_t all = local.tensors[i].rows();
    if (vocabulary[i] ? end > all : end != all) FAIL_CHECK(local.tensors[i].name << ": wrong rows");
  }
  for (std::uint32_t tensor = 0; tensor < model.tensors.size(); ++tensor) {
    std::uint64_t held = 0, inside = 0, elements = 0;
    for (const Shard& shard : shards[tensor]) {
      const Ranks& group = layout.groups()[shard.holders];
      if (!std::binary_search(group.begin(), group.end(), rank)) continue;
      held += shard.box.elements();
      for (const Box& box : kept[tensor]) inside += intersection(box, shard.box).elements();
    }
    for (const Box& box : kept[tensor]) elements += box.elements();
    if (held != elements || held != inside) FAIL_CHECK(model.tensors[tensor].spec.name << " disagrees");
  }
  std::set<std::string> names;
  for (const TensorSpec& tensor : local.tensors) {
    if (!names.insert(tensor.name).second) FAIL_CHECK("two tensors " << tensor.name);
  }
  CHECK((local.model.tensors.empty() || local.model.tensors.size() == local.tensors.size()));
}

void check_layout(const Inventory& model, const Layout& layout) {
  const auto& groups = layout.groups();
  CHECK(std::set<Ranks>(groups.begin(), groups.end()).size() == groups.size());
  for (const Ranks& group : groups) {
    CHECK(!group.empty());
    CHECK(std::adjacent_find(group.begin(), group.end(), std::greater_equal<>()) == group.end());
    CHECK(group.back() < layout.ranks());
  }
  std::vector<std::vector<Shard>> shards(model.tensors.size());
  for (std::uint32_t tensor = 0; tensor < shards.size(); ++tensor) {
    layout.shards(tensor, shards[tensor]);
    check_shards(model, layout, tensor, shards[tensor]);
  }
  for (std::uint32_t rank = 0; rank < layout.ranks(); ++rank) check_local(model, layout, rank, shards);
}

}  // namespace

TEST_CASE("for any model and parallelism, shards cover each tensor once and every rank keeps what they say") {
  const std::vector<Inventory> models = {
      gqa(R"({"mlp_only_layers":[0],"attention_bias":true,"vocab_size":777})"),
      gqa(R"({"tie_word_embeddings":true,"num_attention_heads":12,"num_key_value_heads":12,"num_experts":6})"),
      model::slice(published("DeepSeek-V3"), {.layers = 4, .experts = 8, .vocab_rows = 500}),
      model::slice(published("Qwen3.5-35B-A3B"), {.layers = 4, .experts = 6, .vocab_rows = 500}),
      changed("Qwen3.5-35B-A3B", R"({"num_hidden_layers":2,"layer_types":["full_attention","full_attention"],
        "num_key_value_heads":4,"num_experts":6,"vocab_size":500})"),
      model::slice(published("Nemotron-3-Nano-30B-A3B"), {.layers = 4, .experts = 4}),
      model::slice(published("gpt-oss-20b"), {.layers = 3, .experts = 4}),
      model::slice(published("Llama-3.1-8B"), {.layers = 3}),
      model::load_inventory(scenario_models + "tiny-moe"),
  };
  std::mt19937_64 random(20240811);
  int accepted = 0, refused = 0;
  for (int round = 0; round < 600; ++round) {
    const Inventory& model = models[random() % models.size()];
    const auto size = [&](std::uint32_t most) { return random() % 3 == 0 ? 1 : 1 + random() % most; };
    const int kind = static_cast<int>(random() % 4);
    std::string text = fmt::format("tp={},pp={},ep={}", size(8), size(3), size(4));
    if (random() % 3 == 0) text += fmt::format(",etp={}", size(4));
    if (kind == 3) text = fmt::format("fsdp={},dp={}", size(9), size(3));
    CAPTURE(model.architecture, text, kind);
    std::unique_ptr<Layout> layout;
    try {
      layout = kind == 0 ? megatron(model, text) : kind == 1 ? generator(model, text) : hf(model, text);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::input);
      ++refused;
      continue;
    }
    if (layout->ranks() > 32) continue;
    check_layout(model, *layout);
    ++accepted;
  }
  CAPTURE(accepted, refused);
  CHECK(accepted > 150);
  CHECK(refused > 50);
}

TEST_CASE("the table of splits knows latent attention, slabs and biases by name") {
  using model::Split;
  const auto split = [](const Inventory& model, const std::string& name) {
    return model::split_of(model.tensors[index_of(model, name)], model.dims);
  };
  const Inventory latent = model::slice(published("DeepSeek-V3"), {.layers = 2, .experts = 1});
  CHECK(split(latent, at0 + "self_attn.q_a_proj.weight") == Split::whole);
  CHECK(split(latent, at0 + "self_attn.kv_b_proj.weight") == Split::rows);
  const Inventory biased = gqa(R"({"attention_bias":true})");
  CHECK(split(biased, at0 + "self_attn.q_proj.bias") == Split::rows);
  CHECK(split(biased, at0 + "self_attn.k_proj.bias") == Split::head_rows);
  CHECK(split(biased, at0 + "self_attn.o_proj.bias") == Split::whole);
  const Inventory oss = published("gpt-oss-20b");
  CHECK(split(oss, at0 + "mlp.experts.gate_up_proj") == Split::unknown);
  CHECK(split(oss, at0 + "self_attn.sinks") == Split::unknown);
  const Inventory slabs = published("Qwen3.5-35B-A3B");
  CHECK(split(slabs, "model.language_model.layers.0.mlp.experts.gate_up_proj") == Split::halves);
  CHECK(split(slabs, "model.language_model.layers.0.mlp.experts.down_proj") == Split::slab_columns);
  CHECK(model::is_routed_expert(model::Kind::expert_bias_slab));
  CHECK(!model::is_routed_expert(model::Kind::shared_up));
}
