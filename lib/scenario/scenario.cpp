// Scenario files: strict JSON to a Scenario, and the model configuration it names.
#include "refit/scenario/scenario.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "base/file.hpp"
#include "base/json.hpp"
#include "refit/base/digest.hpp"
#include "refit/base/error.hpp"
#include "refit/reshard/report.hpp"
#include "scenario/strict.hpp"

namespace refit::scenario {
namespace {

namespace fs = std::filesystem;

/// A config.json, parsed and as text. `path` is the file or a directory that holds it.
struct Config {
  Json json;
  std::string place;
};
Config read_config(const fs::path& path) {
  std::error_code ignored;  // what cannot be looked at is refused by whoever opens it
  const fs::path file = fs::is_directory(path, ignored) ? path / "config.json" : path;
  return {read_json_file(file.string()), file.string()};
}

/// A path beside the scenario's file, or a name under models/ of its directory or of the directories().
fs::path find_config(const StrictObject& object, const fs::path& directory) {
  const std::string model = object.required_text("model");
  if (model.find('/') != model.npos || model.ends_with(".json")) return directory / model;
  std::vector<fs::path> places = directories();
  places.insert(places.begin(), directory);
  for (const fs::path& place : places) {
    const fs::path file = place / "models" / model / "config.json";
    if (is_there(file.string())) return file;
  }
  std::vector<std::string> names;
  for (const fs::path& place : places) names.push_back((place / "models").string());
  object.fail("model",
              fmt::format("names {}, which is not in any of {}", json_quoted(model), fmt::join(names, ", ")));
}

Parallelism read_parallelism(const StrictObject& scenario, std::string_view key) {
  const auto object =
      scenario.object(key, {"nodes", "gpus", "tensor_parallel", "pipeline_parallel", "expert_parallel"});
  if (!object) return {};
  Parallelism parallelism;
  const auto positive = [&](std::string_view name) {
    const auto value = object->count(name);
    if (value == 0u) object->fail(name, "has to be at least 1, or null where it is not known");
    return value;
  };
  parallelism.nodes = positive("nodes");
  parallelism.gpus = positive("gpus");
  parallelism.tensor_parallel = positive("tensor_parallel");
  parallelism.pipeline_parallel = positive("pipeline_parallel");
  parallelism.expert_parallel = positive("expert_parallel");
  return parallelism;
}

reshard::Parallelism read_sizes(const StrictObject& ranks, std::string_view key, reshard::Side side) {
  const std::string text = ranks.required_text(key);
  try {
    return reshard::parse_parallelism(text, side);
  } catch (const Error& error) {
    ranks.fail(key, fmt::format("cannot be {}: {}", json_quoted(text), error.what()));
  }
}

Ranks read_ranks(const StrictObject& object) {
  Ranks ranks;
  ranks.trainer = read_sizes(object, "train", reshard::Side::trainer);
  ranks.generator = read_sizes(object, "gen", reshard::Side::generator);
  ranks.colocated = object.flag("colocated").value_or(true);
  if (ranks.trainer.fsdp > 1) ranks.form = reshard::TrainerForm::hf;
  if (const auto name = object.text("trainer_form")) {
    const auto form = reshard::parse_trainer_form(*name);
    if (!form) {
      object.fail("trainer_form", fmt::format("is {}, not one of megatron, hf", json_quoted(*name)));
    }
    ranks.form = *form;
  }
  return ranks;
}

void read_both_ranks(const StrictObject& scenario, Scenario& result) {
  if (const auto object = scenario.object("ranks", {"train", "gen", "colocated", "trainer_form"})) {
    result.ranks = read_ranks(*object);
  }
  if (const auto object =
          scenario.object("cluster", {"train", "gen", "colocated", "trainer_form", "assumption"})) {
    result.cluster = read_ranks(*object);
    result.cluster_assumption = object->required_text("assumption");
  }
}

/// Every switch is a string, as on the command line.
void read_switches(const StrictObject& scenario, std::string_view key, Arm& arm) {
  const auto pairs = plan::to_pairs(arm.switches);
  std::vector<std::string_view> names;
  for (const auto& [name, value] : pairs) names.push_back(name);
  const auto object = scenario.object(key, names);
  if (!object) return;
  for (const std::string& name : object->keys()) {
    const auto value = object->text(name);
    if (!value) continue;
    try {
      plan::set_switch(arm.switches, name, *value);
    } catch (const Error& error) {
      object->fail(name, fmt::format("cannot be {}: {}", json_quoted(*value), error.what()));
    }
  }
}

void read_host_traffic(const StrictObject& scenario, Scenario& result) {
  const auto object = scenario.object(
      "host_traffic", {"offload_full_bytes", "offload_slim_bytes", "reference_swap_bytes", "assumption"});
  if (!object) return;
  result.host_traffic.offload_full_bytes = object->count("offload_full_bytes").value_or(0);
  result.host_traffic.offload_slim_bytes = object->count("offload_slim_bytes").value_or(0);
  result.host_traffic.reference_swap_bytes = object->count("reference_swap_bytes").value_or(0);
  result.host_traffic_assumption = object->required_text("assumption");
  if (result.host_traffic.offload_slim_bytes > result.host_traffic.offload_full_bytes) {
    object->fail("offload_slim_bytes",
                 fmt::format("is {}, more than offload_full_bytes, {}",
                             result.host_traffic.offload_slim_bytes, result.host_traffic.offload_full_bytes));
  }
}

std::map<std::string, PublishedPhase> read_phases(const StrictObject& scenario) {
  std::map<std::string, PublishedPhase> phases;
  const auto object = scenario.object("phases", phase_keys());
  if (!object) return phases;
  for (const std::string& key : object->keys()) {
    const auto phase = object->object(key, {"control_s", "treatment_s", "source"});
    if (!phase) continue;
    phases[key] = {phase->seconds("control_s"), phase->seconds("treatment_s"),
                   phase->required_text("source")};
  }
  return phases;
}

void read_recipe(const StrictObject& scenario, Scenario& result) {
  if (const auto name = scenario.text("recipe")) {
    result.recipe = model::parse_recipe(*name);
    if (!result.recipe) {
      scenario.fail("recipe", fmt::format("is {}, not one of routed-experts, mlp, all-linear, none",
                                          json_quoted(*name)));
    }
  }
  result.ignore = scenario.texts("ignore");
}

plan::MoeLayout read_layout(const StrictObject& scenario) {
  const auto name = scenario.text("moe_layout");
  if (!name) return plan::MoeLayout::flashinfer_trtllm;
  const auto layout = plan::parse_moe_layout(*name);
  if (!layout) {
    scenario.fail("moe_layout",
                  fmt::format("is {}, not one of flashinfer-trtllm, checkpoint", json_quoted(*name)));
  }
  return *layout;
}

}  // namespace

const std::vector<std::string_view>& phase_keys() {
  static const std::vector<std::string_view> keys = {"prepare_for_generation/total",
                                                     "prepare_for_generation/transfer_and_update_weights",
                                                     "generation",
                                                     "policy_and_reference_logprobs",
                                                     "policy_training",
                                                     "total_step_time"};
  return keys;
}

Scenario load_scenario(const fs::path& file) {
  const Json json = read_json_file(file.string());
  const StrictObject object(json, file.string(), "",
                            {"schema", "name", "title", "description", "source", "platform", "notes", "model",
                             "trainer", "generator", "ranks", "cluster", "recipe", "ignore", "moe_layout",
                             "control", "treatment", "host_traffic", "phases"});
  if (const auto schema = object.required_text("schema"); schema != kSchema) {
    object.fail("schema", fmt::format("is {}; this program reads \"{}\"", json_quoted(schema), kSchema));
  }
  Scenario result;
  result.name = object.required_text("name");
  result.title = object.required_text("title");
  result.description = object.text("description").value_or("");
  result.source = object.text("source").value_or("");
  result.platform = object.text("platform").value_or("");
  result.notes = object.texts("notes");
  result.trainer = read_parallelism(object, "trainer");
  result.generator = read_parallelism(object, "generator");
  read_both_ranks(object, result);
  read_recipe(object, result);
  result.moe_layout = read_layout(object);
  read_switches(object, "control", result.control);
  read_switches(object, "treatment", result.treatment);
  read_host_traffic(object, result);
  result.phases = read_phases(object);
  const Config config = read_config(find_config(object, file.parent_path()));
  result.config_json = config.json.dump();
  result.config_place = config.place;
  result.digest = digest_hex(digest_text(json.dump() + result.config_json));
  return result;
}

Scenario model_scenario(const std::string& path) {
  const Config config = read_config(path);
  Scenario result;
  const fs::path directory = fs::absolute(config.place).lexically_normal().parent_path();
  result.name = directory.filename().string();
  result.title = fmt::format("{}, one trainer rank to one generator rank", result.name);
  result.config_json = config.json.dump();
  result.config_place = config.place;
  result.digest = digest_hex(digest_text(result.config_json));
  return result;
}

void override_switches(Arm& arm, std::string_view text) {
  // Zero is no valid size, so that a size which is asked for shows, even where it is the one that was set
  // before.
  plan::Switches switches = arm.switches;
  switches.buffer_size = 0;
  plan::set_switches(switches, text);
  if (switches.buffer_size == 0) {
    switches.buffer_size = arm.switches.buffer_size;
  } else {
    arm.buffer_size_fixed = true;
  }
  arm.switches = switches;
}

}  // namespace refit::scenario
