// Scenario files are read strictly, found by name, and cut to a part of the model that fits a budget.
#include "refit/scenario/scenario.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "base/json.hpp"
#include "refit/base/error.hpp"
#include "refit/scenario/replay.hpp"
#include "support/catch.hpp"

using namespace refit;
using namespace refit::scenario;
namespace fs = std::filesystem;

namespace {

const fs::path kShipped = fs::path(REFIT_TESTS_DIR).parent_path() / "scenarios";
constexpr const char* kTransfer = "prepare_for_generation/transfer_and_update_weights";
constexpr std::uint64_t kMiB = 1u << 20, kGiB = 1u << 30;

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (fs::temp_directory_path() / "refit-scenario-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TemporaryDirectory() { fs::remove_all(path_); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }
  fs::path write(const std::string& name, const std::string& text) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
    return path_ / name;
  }

 private:
  fs::path path_;
};

/// tiny-moe with some members replaced (null removes) by RFC 7396 merge patch.
std::string patched(const std::string& patch) {
  Json json = read_json_file((kShipped / "tiny-moe.json").string());
  json["model"] = (kShipped / "models" / "tiny-moe" / "config.json").string();
  json.merge_patch(Json::parse(patch));
  return json.dump();
}

/// The message with which a scenario is refused.
std::string refusal(const std::string& text) {
  const TemporaryDirectory directory;
  const fs::path file = directory.write("s.json", text);
  try {
    (void)load_scenario(file);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    const std::string message = error.what();
    CHECK(message.starts_with(file.string() + ": "));
    return message.substr(file.string().size() + 2);
  }
  return "";
}

template <typename Body>
std::string error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  CAPTURE(text, part);
  return text.find(part) != text.npos;
}

model::Inventory inventory_of(const Scenario& scenario) {
  return model::parse_inventory(scenario.config_json, scenario.config_place);
}

Replay replay_of(const Scenario& scenario, const ReplayRequest& request) {
  return choose_replay(scenario, inventory_of(scenario), request);
}

/// Memory of another slice with the buffers of `replay`.
std::uint64_t needed(const Replay& replay, const model::Slice& slice) {
  run::BenchSpec spec = replay.spec;
  spec.slice = slice;
  return run::memory_needed(run::make_plan(spec, spec.control), spec.control, spec.treatment, spec.backend);
}

}  // namespace

TEST_CASE("every shipped scenario loads, is named as its file and reads its model") {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(kShipped)) {
    if (entry.path().extension() != ".json") continue;
    const Scenario scenario = load_scenario(entry.path());
    CAPTURE(scenario.name);
    CHECK(scenario.name == entry.path().stem().string());
    CHECK(scenario.title.size() <= 80);
    CHECK_FALSE(scenario.host_traffic_assumption.empty());
    CHECK(scenario.phases.size() == phase_keys().size());
    CHECK_FALSE(scenario.source.empty());
    CHECK(scenario.source.size() <= 60);
    // Where somebody ran it on several GPUs, a plan can be made for them.
    if (!scenario.platform.empty()) {
      REQUIRE(scenario.cluster.has_value());
      const auto gpus = scenario.trainer.gpus.value_or(scenario.cluster->processes());
      CHECK(scenario.cluster->processes() == gpus);
      CHECK_FALSE(scenario.cluster_assumption.empty());
    }
    CHECK(inventory_of(scenario).tensors.size() > 10);
    names.insert(scenario.name);
  }
  CHECK(names == std::set<std::string>{"deepseek-v3-gb200", "deepseek-v3-h100", "glm-4.5-air", "gpt-oss-120b",
                                       "hostile", "kimi-k2", "moonlight-16b", "nemotron-nano3", "qwen3-235b",
                                       "qwen3-235b-h800", "qwen3-235b-integrated", "qwen3-30b",
                                       "qwen3-30b-batched", "qwen3-30b-gb200", "qwen3-32b", "qwen3.5-397b",
                                       "tiny-moe", "tiny-moe-ep4", "tiny-moe-ep4-ep4"});
}

TEST_CASE("every published table is a scenario, figure by figure") {
  constexpr const char* kTotal = "prepare_for_generation/total";
  constexpr const char* kStep = "total_step_time";
  struct Row {
    const char *scenario, *phase;
    double control_s, treatment_s;
  };
  static constexpr Row rows[] = {
      {"qwen3-30b-gb200", kStep, 160.349, 157.892},
      {"qwen3-30b-gb200", kTotal, 10.413, 8.180},
      {"qwen3-30b-gb200", kTransfer, 7.909, 4.859},
      {"qwen3-30b", kTransfer, 9.67, 2.98},
      {"qwen3-30b", kTotal, 17.2, 13.1},
      {"qwen3-30b", "generation", 49.8, 51.8},
      {"qwen3-30b", "policy_and_reference_logprobs", 84.6, 82.0},
      {"qwen3-30b", "policy_training", 91.0, 90.6},
      {"qwen3-30b", kStep, 256.3, 250.9},
      {"qwen3-235b", kTransfer, 21.8, 7.4},
      {"qwen3-235b", kTotal, 42.2, 28.8},
      {"qwen3-235b-integrated", kTransfer, 18.40, 7.26},
      {"qwen3-235b-integrated", kTotal, 40.2, 30.4},
      {"nemotron-nano3", kTransfer, 3.56, 1.69},
      {"nemotron-nano3", kTotal, 13.2, 11.6},
      {"qwen3-30b-batched", kTransfer, 6.059, 5.283},
      {"qwen3-30b-batched", kTotal, 9.737, 9.219},
      {"qwen3-30b-batched", kStep, 189.187, 188.483},
      {"deepseek-v3-h100", kTotal, 51, 47},
  };
  for (const Row& row : rows) {
    CAPTURE(row.scenario, row.phase);
    const Scenario scenario = load_scenario(kShipped / (std::string(row.scenario) + ".json"));
    const PublishedPhase& phase = scenario.phases.at(row.phase);
    CHECK(phase.control_s == row.control_s);
    CHECK(phase.treatment_s == row.treatment_s);
  }
}

TEST_CASE("the arms of a single feature's pull request differ in that feature alone") {
  const Scenario batched = load_scenario(kShipped / "qwen3-30b-batched.json");
  plan::Switches treatment = batched.control.switches;
  treatment.quantize = plan::Quantize::batched;
  CHECK(batched.control.switches.prequantize);
  CHECK(batched.treatment.switches == treatment);

  const Scenario keys = load_scenario(kShipped / "deepseek-v3-h100.json");
  plan::Switches control = keys.treatment.switches;
  plan::set_switches(control, "metadata=offset-map,handle_encoding=with-function");
  CHECK(keys.control.switches == control);
  CHECK(keys.recipe == model::RecipeKind::none);
}

TEST_CASE("the hostile scenario has a tensor that is larger than its whole buffer") {
  const Scenario hostile = load_scenario(kShipped / "hostile.json");
  std::uint64_t largest = 0;
  for (const model::Tensor& tensor : inventory_of(hostile).tensors) {
    largest = std::max(largest, tensor.spec.bytes());
  }
  CHECK(largest > hostile.control.switches.buffer_size);
  CHECK(largest > hostile.treatment.switches.buffer_size);
}

TEST_CASE("a list has what a table of scenarios needs, and only what was published of it") {
  std::map<std::string, Entry> entries;
  for (const Entry& entry : list_scenarios()) entries.emplace(entry.name, entry);
  const Entry& qwen = entries.at("qwen3-30b");
  CHECK(qwen.model == "qwen3-30b-a3b");
  CHECK(qwen.gpus == 16u);
  CHECK_FALSE(qwen.ranks.has_value());
  CHECK(qwen.source == "NeMo-RL PR 3294 and 3478");
  CHECK_FALSE(entries.at("qwen3-235b-integrated").gpus.has_value());
  CHECK_FALSE(entries.at("tiny-moe").gpus.has_value());  // nobody published it
  CHECK(entries.at("tiny-moe-ep4").ranks == 4u);
}

TEST_CASE("qwen3-30b carries the published figures and the switches of PR 3294") {
  const Scenario scenario = load_scenario(kShipped / "qwen3-30b.json");
  CHECK(scenario.control.switches == plan::Switches{});
  CHECK(scenario.treatment.switches == plan::published_treatment());
  CHECK(scenario.control.switches.buffer_size == 4 * kGiB);
  CHECK_FALSE(scenario.control.buffer_size_fixed);
  CHECK(scenario.recipe == model::RecipeKind::routed_experts);
  CHECK(scenario.trainer.gpus == 16u);
  CHECK_FALSE(scenario.trainer.tensor_parallel.has_value());
  CHECK(scenario.phases.at(kTransfer).control_s == 9.67);
  CHECK(scenario.phases.at(kTransfer).treatment_s == 2.98);
  CHECK(scenario.phases.at("total_step_time").control_s == 256.3);
  CHECK(scenario.phases.at("total_step_time").treatment_s == 250.9);
}

TEST_CASE(
    "the GB200 scenario turns on prequantization and nothing else, and leaves unpublished phases empty") {
  const Scenario scenario = load_scenario(kShipped / "qwen3-30b-gb200.json");
  plan::Switches only_prequantize;
  only_prequantize.prequantize = true;
  CHECK(scenario.treatment.switches == only_prequantize);
  CHECK(scenario.phases.at(kTransfer).treatment_s == 4.859);
  CHECK_FALSE(scenario.phases.at("generation").control_s.has_value());
}

TEST_CASE("a mistake in a scenario is refused with its JSON pointer and, for a key, the nearest known one") {
  struct Case {
    const char* patch;
    std::vector<const char*> parts;
  };
  const std::vector<Case> cases = {
      {R"({"titel": "x"})", {"/titel is not a known key", "\"title\""}},
      {R"({"zzz": 1})", {"/zzz is not a known key; known here: schema, name"}},
      {R"({"control": {"prequantise": "on"}})", {"/control/prequantise", "\"prequantize\""}},
      {R"({"control": {"prequantize": true}})", {"/control/prequantize has to be a string, not true"}},
      {R"({"treatment": {"prequantize": "yes"}})", {"/treatment/prequantize cannot be \"yes\"", "on or off"}},
      {R"({"treatment": {"buffer_size": "0"}})", {"/treatment/buffer_size"}},
      {R"({"treatment": "on"})", {"/treatment has to be an object, not \"on\""}},
      {R"({"schema": "refit-scenario/2"})", {"/schema is \"refit-scenario/2\"", "refit-scenario/1"}},
      {R"({"schema": null})", {"/schema is required"}},
      {R"({"name": ""})", {"/name is required"}},
      {R"({"title": 3})", {"/title has to be a string, not 3"}},
      {R"({"sorce": "x"})", {"/sorce is not a known key", "\"source\""}},
      {R"({"source": ["PR 1"]})", {"/source has to be a string"}},
      {R"({"cluster": {"train": "ep=2", "gen": "tp=2"}})", {"/cluster/assumption is required"}},
      {R"({"notes": "x"})", {"/notes has to be an array of strings"}},
      {R"({"notes": ["x", 7]})", {"/notes/1 has to be a string that is not empty, not 7"}},
      {R"({"trainer": {"gpus": -1}})",
       {"/trainer/gpus has to be a whole number that is not negative, not -1"}},
      {R"({"trainer": {"gpus": 1.5}})", {"/trainer/gpus has to be a whole number"}},
      {R"({"trainer": {"gpus": 0}})", {"/trainer/gpus has to be at least 1"}},
      {R"({"trainer": {"gpu": 8}})", {"/trainer/gpu is not a known key", "\"gpus\""}},
      {R"({"ranks": "ep=4"})", {"/ranks has to be an object, not \"ep=4\""}},
      {R"({"ranks": {"gen": "tp=2"}})", {"/ranks/train is required"}},
      {R"({"ranks": {"trian": "ep=4", "gen": "tp=2"}})", {"/ranks/trian is not a known key", "\"train\""}},
      {R"({"ranks": {"train": "epp=4", "gen": "tp=2"}})",
       {"/ranks/train cannot be \"epp=4\"", "trainer parallelism"}},
      {R"({"ranks": {"train": "ep=4", "gen": "fsdp=2"}})", {"/ranks/gen cannot be \"fsdp=2\""}},
      {R"({"ranks": {"train": "ep=4", "gen": "tp=2", "colocated": "yes"}})",
       {"/ranks/colocated has to be true or false, not \"yes\""}},
      {R"({"ranks": {"train": "ep=4", "gen": "tp=2", "trainer_form": "dtensor"}})",
       {"/ranks/trainer_form is \"dtensor\", not one of megatron, hf"}},
      {R"({"recipe": "experts"})", {"/recipe is \"experts\"", "routed-experts"}},
      {R"({"moe_layout": "trtllm"})", {"/moe_layout is \"trtllm\"", "flashinfer-trtllm"}},
      {R"({"host_traffic": {"assumption": null}})", {"/host_traffic/assumption is required"}},
      {R"({"host_traffic": {"offload_full_bytes": 1, "offload_slim_bytes": 2}})",
       {"/host_traffic/offload_slim_bytes"}},
      {R"({"host_traffic": {"offload_full_bytes": 9223372036854775807}})",
       {"/host_traffic/offload_full_bytes"}},
      {R"({"phases": {"generation": {"control_s": "49.8"}}})",
       {"/phases/generation/control_s has to be a number"}},
      {R"({"phases": {"generation": {"control_s": -1}}})", {"/phases/generation/control_s", "not negative"}},
      {R"({"phases": {"generation": {"source": null}}})", {"/phases/generation/source is required"}},
      {R"({"phases": {"prepare_for_generation/totel": {}}})",
       {"/phases/prepare_for_generation~1totel is not a known key", "prepare_for_generation/total"}},
      {R"({"model": "no-such-model"})", {"/model names \"no-such-model\""}},
      {R"({"model": null})", {"/model is required"}},
  };
  for (const Case& c : cases) {
    CAPTURE(c.patch);
    const std::string message = refusal(patched(c.patch));
    for (const char* part : c.parts) CHECK(contains(message, part));
  }
  CHECK(contains(refusal("[]"), "the whole file has to be an object"));
  CHECK(contains(refusal("{"), "line 1"));
  CHECK(
      contains(refusal(R"({"schema": "refit-scenario/1", "schema": "refit-scenario/1"})"), "duplicate key"));
}

TEST_CASE("a key with control characters cannot write to the terminal") {
  const std::string message = refusal(patched(R"({"\u001b[2J": 1})"));
  CHECK(contains(message, "\\u001b"));
  CHECK(message.find('\x1b') == message.npos);
}

TEST_CASE("what may be left out has the documented defaults") {
  const TemporaryDirectory directory;
  directory.write("m/config.json",
                  read_json_file((kShipped / "models/tiny-moe/config.json").string()).dump());
  const fs::path file = directory.write(
      "s.json", R"({"schema": "refit-scenario/1", "name": "s", "title": "t", "model": "m/config.json"})");
  const Scenario scenario = load_scenario(file);
  CHECK(scenario.control.switches == plan::Switches{});
  CHECK(scenario.treatment.switches == plan::published_treatment());
  CHECK_FALSE(scenario.recipe.has_value());
  CHECK(scenario.moe_layout == plan::MoeLayout::flashinfer_trtllm);
  CHECK(scenario.phases.empty());
  CHECK(scenario.host_traffic.offload_full_bytes == 0);
  CHECK(scenario.ignore.empty());
}

TEST_CASE("ranks say how both sides divide the model, and are one of each side where a scenario has none") {
  CHECK_FALSE(load_scenario(kShipped / "tiny-moe.json").ranks.has_value());
  const auto ranks_of = [](const std::string& ranks) {
    const TemporaryDirectory directory;
    return load_scenario(directory.write("s.json", patched(R"({"ranks": )" + ranks + "}"))).ranks.value();
  };
  const Ranks usual = ranks_of(R"({"train": "ep=4", "gen": "tp=2,dp=2"})");
  CHECK(usual.trainer.ep == 4);
  CHECK(usual.generator.tp == 2);
  CHECK(usual.generator.dp == 2);
  CHECK(usual.colocated);
  CHECK(usual.form == reshard::TrainerForm::megatron);
  CHECK(usual.processes() == 4);
  const Ranks fsdp = ranks_of(R"({"train": "fsdp=4", "gen": "tp=1", "colocated": false})");
  CHECK(fsdp.form == reshard::TrainerForm::hf);
  CHECK(fsdp.processes() == 5);
  CHECK(ranks_of(R"({"train": "tp=2", "gen": "tp=1", "trainer_form": "hf"})").form ==
        reshard::TrainerForm::hf);
}

TEST_CASE("a model is a path beside the scenario's file or a name under its models") {
  const TemporaryDirectory directory;
  const std::string config = read_json_file((kShipped / "models/tiny-moe/config.json").string()).dump();
  directory.write("elsewhere/config.json", config);
  directory.write("models/mine/config.json", config);
  for (const char* model : {"elsewhere/config.json", "./elsewhere", "mine"}) {
    CAPTURE(model);
    const fs::path file = directory.write("s.json", patched(std::string(R"({"model": ")") + model + "\"}"));
    CHECK(inventory_of(load_scenario(file)).dims.experts == 8);
  }
}

TEST_CASE("the digest follows values, not spelling") {
  const TemporaryDirectory directory;
  const std::string text = patched("{}");
  const auto digest_of = [&](const std::string& t) {
    return load_scenario(directory.write("s.json", t)).digest;
  };
  const std::string digest = digest_of(text);
  CHECK(digest.size() == 16);
  CHECK(digest_of(Json::parse(text).dump(3)) == digest);
  CHECK(digest_of(patched(R"({"title": "another"})")) != digest);
  CHECK(digest_of(patched(R"({"control": {"loader": "cached"}})")) != digest);
}

TEST_CASE("names are looked for in REFIT_SCENARIO_DIR first, and an unknown one names the nearest") {
  const TemporaryDirectory directory;
  directory.write("tiny-moe.json", patched(R"({"title": "mine"})"));
  directory.write("broken.json", "{");
  ::setenv("REFIT_SCENARIO_DIR", directory.path().c_str(), 1);
  CHECK(directories().front() == directory.path());
  CHECK(find_scenario("tiny-moe").title == "mine");
  CHECK(contains(error_of([] { (void)find_scenario("tiny-mo"); }), "did you mean \"tiny-moe\"?"));
  CHECK(contains(error_of([] { (void)find_scenario("something else"); }), "known: broken"));
  const auto entries = list_scenarios();
  for (const Entry& entry : entries) {
    if (entry.name.starts_with("tiny-moe-ep4")) CHECK(entry.ranks == 4u);
    if (entry.name == "tiny-moe") CHECK_FALSE(entry.ranks.has_value());
  }
  const auto broken =
      std::find_if(entries.begin(), entries.end(), [](const Entry& e) { return e.name == "broken"; });
  REQUIRE(broken != entries.end());
  CHECK(contains(broken->title, "cannot be read"));
  CHECK(std::is_sorted(entries.begin(), entries.end(),
                       [](const Entry& a, const Entry& b) { return a.name < b.name; }));
  ::unsetenv("REFIT_SCENARIO_DIR");
  CHECK(contains(error_of([] { (void)find_scenario("no/such.json"); }), "no/such.json"));
}

TEST_CASE("a model of one's own gets the usual switches and nothing published") {
  for (const char* path : {"models/tiny-moe", "models/tiny-moe/config.json", "models/tiny-moe/"}) {
    const Scenario scenario = model_scenario((kShipped / path).string());
    CHECK(scenario.name == "tiny-moe");
    CHECK(scenario.treatment.switches == plan::published_treatment());
    CHECK(scenario.phases.empty());
  }
  CHECK(contains(error_of([] { (void)model_scenario("/no/such/model"); }), "/no/such/model"));
}

TEST_CASE("switches over a scenario's, and a buffer size that was asked for is known as such") {
  Arm arm;
  override_switches(arm, "");
  CHECK(arm.switches == plan::Switches{});
  override_switches(arm, "loader=cached,shuffle=batched");
  CHECK(arm.switches.loader == plan::Loader::cached);
  CHECK(arm.switches.buffer_size == 4 * kGiB);
  CHECK_FALSE(arm.buffer_size_fixed);
  override_switches(arm, "buffer_size=4GiB");  // the same as before, and yet asked for
  CHECK(arm.switches.buffer_size == 4 * kGiB);
  CHECK(arm.buffer_size_fixed);
  CHECK_THROWS_AS(override_switches(arm, "loder=cached"), Error);
}

// --- replay
// ---------------------------------------------------------------------------------------------------------

TEST_CASE("the whole of qwen3-30b has the published totals and the bytes on the wire that follow from them") {
  const Scenario scenario = load_scenario(kShipped / "qwen3-30b.json");
  const Replay replay = replay_of(scenario, {.memory_budget = 2 * kGiB});
  CHECK(replay.whole.tensors == 18867);
  CHECK(replay.whole.parameters == 30532122624);
  CHECK(replay.whole.bytes == 61064245248);
  CHECK(replay.whole.expert_bytes == 57982058496);
  CHECK(replay.whole.quantized_tensors == 48 * 128 * 3);
  CHECK(replay.whole.source_bytes == 61064245248);
  CHECK(replay.whole.control.wire_bytes == 61064245248);
  // Experts as one byte an element and one scale byte for 32.
  const std::uint64_t elements = 57982058496 / 2;
  CHECK(replay.whole.treatment.wire_bytes == 61064245248 - 57982058496 + elements + elements / 32);
  CHECK(replay.whole.control.keys == 18867);
  CHECK(replay.whole.treatment.keys == 18867 + 48 * 128 * 3);
  CHECK(replay.whole.floor_bytes() == replay.whole.source_bytes + replay.whole.destination_bytes);
  // 61.06 GB through halves of 2 GiB.
  CHECK(replay.whole.control.buckets >= 29);
  CHECK(replay.whole.control.buckets <= 31);
}

TEST_CASE("a replay is the largest number of whole layers that fits the budget") {
  const Scenario scenario = load_scenario(kShipped / "qwen3-30b.json");
  const Replay replay = replay_of(scenario, {.memory_budget = 7 * kGiB});
  CHECK(replay.cut());
  CHECK(replay.spec.slice.experts == 0);
  CHECK(replay.spec.slice.vocab_rows == 0);
  CHECK(replay.spec.slice.layers >= 2);
  CHECK(replay.part.layers == replay.spec.slice.layers);
  CHECK(replay.part.memory_needed <= 7 * kGiB);
  model::Slice more = replay.spec.slice;
  ++more.layers;
  CHECK(needed(replay, more) > 7 * kGiB);
  CHECK(replay.memory_budget == 7 * kGiB);
  CHECK(replay.fraction() == Approx(static_cast<double>(replay.part.bytes) / 61064245248.0));
  CHECK(replay.extrapolation() == Approx(static_cast<double>(replay.whole.floor_bytes()) /
                                         static_cast<double>(replay.part.floor_bytes())));
  CHECK(contains(replay.sentence, "of 48 layers, all 128 experts, embeddings, norms, head: "));
  CHECK(contains(replay.sentence, " % of 61.06 GB."));
}

TEST_CASE("a model that fits is replayed whole, with the buffers and host traffic of its scenario") {
  const Scenario scenario = load_scenario(kShipped / "tiny-moe.json");
  const Replay replay = replay_of(scenario, {.memory_budget = kGiB});
  CHECK_FALSE(replay.cut());
  CHECK(replay.spec.control == scenario.control.switches);
  CHECK(replay.spec.treatment == scenario.treatment.switches);
  CHECK_FALSE(replay.buffers_scaled);
  CHECK(replay.spec.host_traffic.offload_full_bytes == scenario.host_traffic.offload_full_bytes);
  CHECK(replay.fraction() == 1);
  CHECK(replay.extrapolation() == 1);
  CHECK(replay.part.tensors == replay.whole.tensors);
  CHECK(contains(replay.sentence, "the whole model"));
}

TEST_CASE("buffers and host traffic shrink with the model unless a size was asked for") {
  Scenario scenario = load_scenario(kShipped / "qwen3-30b.json");
  override_switches(scenario.treatment, "buffer_size=96MiB");
  const Replay replay = replay_of(scenario, {.layers = 2, .memory_budget = 7 * kGiB});
  CHECK(replay.spec.treatment.buffer_size == 96 * kMiB);
  const double exact = 4.0 * static_cast<double>(kGiB) * replay.fraction();
  CHECK(static_cast<double>(replay.spec.control.buffer_size) >= exact);
  CHECK(static_cast<double>(replay.spec.control.buffer_size) < exact + static_cast<double>(kMiB));
  CHECK(replay.spec.control.buffer_size % kMiB == 0);
  CHECK(replay.buffers_scaled);
  CHECK(static_cast<double>(replay.spec.host_traffic.reference_swap_bytes) ==
        Approx(static_cast<double>(scenario.host_traffic.reference_swap_bytes) * replay.fraction()));
}

TEST_CASE("a scaled buffer is never below 16 MiB, nor above the size it is scaled from") {
  Scenario scenario = load_scenario(kShipped / "tiny-moe.json");
  const ReplayRequest request{.layers = 2, .memory_budget = 7 * kGiB};
  CHECK(replay_of(scenario, request).spec.control.buffer_size == 4 * kMiB);
  scenario.control.switches.buffer_size = 20 * kMiB;
  CHECK(replay_of(scenario, request).spec.control.buffer_size == 16 * kMiB);
}

TEST_CASE(
    "where two layers of each class do not fit, experts are cut, then embedding rows, then it is refused") {
  const Scenario scenario = load_scenario(kShipped / "qwen3-30b.json");
  const auto budget_of = [&](const ReplayRequest& request) {
    ReplayRequest generous = request;
    generous.memory_budget = 64 * kGiB;
    return replay_of(scenario, generous).part.memory_needed;
  };
  const std::uint64_t two_layers = budget_of({.layers = 2});
  const std::uint64_t one_expert = budget_of({.layers = 2, .experts = 1});

  const Replay exact = replay_of(scenario, {.memory_budget = two_layers});
  CHECK(exact.part.layers == 2);
  CHECK(exact.part.experts == 128);

  const Replay experts = replay_of(scenario, {.memory_budget = two_layers - 1});
  CHECK(experts.part.layers == 2);
  CHECK(experts.part.experts < 128);
  CHECK(experts.part.experts > 100);
  CHECK(experts.part.vocab_rows == 151936);
  CHECK(contains(experts.sentence, " of 128 experts, embeddings"));

  const Replay rows = replay_of(scenario, {.memory_budget = one_expert - 1});
  CHECK(rows.part.experts == 1);
  CHECK(rows.part.vocab_rows < 151936);
  CHECK(rows.part.vocab_rows > 100000);
  CHECK(rows.part.memory_needed < one_expert);
  CHECK(contains(rows.sentence, "of 151936 rows of embeddings and head"));

  const std::string message = error_of([&] { (void)replay_of(scenario, {.memory_budget = 8 * kMiB}); });
  CHECK(contains(message, "8.39 MB"));
  CHECK(contains(message, "2 of 48 layers, 1 of 128 experts, 128 embedding rows, needs"));
}

TEST_CASE("every class of layers is in a replay twice, or as often as it exists") {
  for (const char* name : {"moonlight-16b.json", "nemotron-nano3.json"}) {
    const Scenario scenario = load_scenario(kShipped / name);
    const model::Inventory model = inventory_of(scenario);
    const Replay replay = choose_replay(scenario, model, {.memory_budget = 1 * kGiB});
    CAPTURE(name, replay.sentence);
    std::set<int> layers;
    bool embedding = false, head = false;
    for (const model::Tensor& tensor : model::slice(model, replay.spec.slice).tensors) {
      layers.insert(tensor.layer);
      embedding = embedding || tensor.kind == model::Kind::embedding;
      head = head || tensor.kind == model::Kind::lm_head;
    }
    CHECK(embedding);
    CHECK(head);
    for (const auto& members : model::layer_classes(model)) {
      const auto kept =
          std::count_if(members.begin(), members.end(), [&](int layer) { return layers.contains(layer); });
      CHECK(static_cast<std::size_t>(kept) >= std::min<std::size_t>(2, members.size()));
    }
  }
}

TEST_CASE("layers and experts that were asked for are kept or refused") {
  const Scenario scenario = load_scenario(kShipped / "qwen3-30b.json");
  const Replay replay = replay_of(scenario, {.layers = 3, .experts = 4, .memory_budget = 7 * kGiB});
  CHECK(replay.part.layers == 3);
  CHECK(replay.part.experts == 4);
  CHECK(replay.part.vocab_rows == 151936);
  CHECK(contains(error_of([&] { (void)replay_of(scenario, {.layers = 49}); }), "49 layers were asked for"));
  CHECK(contains(error_of([&] { (void)replay_of(scenario, {.experts = 129}); }), "qwen3-30b has 128"));
  CHECK(
      contains(error_of([&] { (void)replay_of(load_scenario(kShipped / "qwen3-32b.json"), {.experts = 1}); }),
               "qwen3-32b has 0"));
}

TEST_CASE("what cannot be planned is refused whatever the part that would be replayed") {
  Scenario nemotron = load_scenario(kShipped / "nemotron-nano3.json");
  CHECK_NOTHROW(replay_of(nemotron, {.memory_budget = 2 * kGiB}));
  nemotron.moe_layout = plan::MoeLayout::flashinfer_trtllm;
  CHECK(contains(error_of([&] { (void)replay_of(nemotron, {.memory_budget = 2 * kGiB}); }), "1856"));

  Scenario direct = load_scenario(kShipped / "tiny-moe.json");
  override_switches(direct.control, "pipeline=direct");
  CHECK(contains(error_of([&] { (void)replay_of(direct, {}); }), "prequantize"));
}

TEST_CASE("a direct arm has no buckets and writes the engine's bytes") {
  Scenario scenario = load_scenario(kShipped / "tiny-moe.json");
  override_switches(scenario.treatment, "pipeline=direct");
  const Replay replay = replay_of(scenario, {});
  CHECK(replay.whole.treatment.buckets == 0);
  CHECK(replay.whole.treatment.wire_bytes == replay.whole.destination_bytes);
  CHECK(replay.whole.control.buckets > 1);
}

TEST_CASE("the default budget is never above 7 GiB") {
  CHECK(default_memory_budget() > 0);
  CHECK(default_memory_budget() <= 7 * kGiB);
}
