// A scenario: which model is moved how, in two arms, beside which published figures. Strict JSON in, a plain
// value out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "refit/model/recipe.hpp"
#include "refit/plan/plan.hpp"
#include "refit/plan/switches.hpp"
#include "refit/reshard/layout.hpp"
#include "refit/reshard/parallelism.hpp"
#include "refit/run/bench.hpp"

namespace refit::scenario {

inline constexpr std::string_view kSchema = "refit-scenario/1";

/// One side of the published run. It labels the output: what runs here is one rank, or `Ranks`.
struct Parallelism {
  std::optional<std::uint64_t> nodes, gpus, tensor_parallel, pipeline_parallel, expert_parallel;
};

/// How many ranks run here, one process each, and how they divide the model.
struct Ranks {
  reshard::Parallelism trainer, generator;
  reshard::TrainerForm form = reshard::TrainerForm::megatron;
  bool colocated = true;  ///< trainer rank i and generator rank i are one process
  /// The only one that runs, its peers simulated; nothing: all run.
  std::optional<std::uint32_t> simulated{};
  bool broadcast = false;  ///< pipeline=staged sends everything to everybody
  [[nodiscard]] std::uint32_t processes() const;
  /// Whose copies and clocks a report shows.
  [[nodiscard]] std::uint32_t reporting() const noexcept { return simulated.value_or(0); }
};

/// Seconds that somebody published for a phase of a step; nothing where they did not.
struct PublishedPhase {
  std::optional<double> control_s, treatment_s;
  std::string source;  ///< project, pull request, which steps
};

/// The timer names of NeMo-RL that a scenario may give published seconds for.
[[nodiscard]] const std::vector<std::string_view>& phase_keys();

struct Arm {
  plan::Switches switches;
  /// Somebody asked for exactly this buffer_size: a replay of a part must not scale it.
  bool buffer_size_fixed = false;
};

struct Scenario {
  std::string name, title, description;
  std::string source;              ///< where the figures are from: a pull request, a recipe; may be empty
  std::string platform;            ///< hardware of the published run; empty when nothing was published
  std::vector<std::string> notes;  ///< said at the top of every output
  std::string config_json, config_place;  ///< text of the model's config.json and where it is
  Parallelism trainer, generator;
  std::optional<Ranks> ranks;  ///< nothing: one rank of each side, in two processes
  /// The ranks of the published run, where they are known or can be assumed: for plans, and for one of them
  /// with its peers simulated.
  std::optional<Ranks> cluster;
  std::string cluster_assumption;           ///< where they come from
  std::optional<model::RecipeKind> recipe;  ///< nothing: model::default_recipe
  std::vector<std::string> ignore;
  plan::MoeLayout moe_layout = plan::MoeLayout::flashinfer_trtllm;
  Arm control{plan::Switches{}}, treatment{plan::published_treatment()};
  run::HostTraffic host_traffic;        ///< of one trainer rank of the published run
  std::string host_traffic_assumption;  ///< how these bytes were arrived at
  std::map<std::string, PublishedPhase> phases;
  std::string digest;  ///< of the scenario's and the model's JSON values, not their spelling
};

/// Reads a scenario. Error(input) that begins with the file and the JSON pointer: unknown key (with the
/// nearest known one), wrong type, value out of range, a switch that does not exist.
[[nodiscard]] Scenario load_scenario(const std::filesystem::path& file);

/// `name_or_file` is a path when it has a '/' or ends in ".json", else a name looked for in directories().
/// Error(input) that lists the nearest names when there is none.
[[nodiscard]] Scenario find_scenario(const std::string& name_or_file);

/// A user's own model, one rank of each role, default and published switches, nothing published beside it.
/// `path` is a config.json or the directory that holds one.
[[nodiscard]] Scenario model_scenario(const std::string& path);

/// Where names are looked for, in this order: $REFIT_SCENARIO_DIR, share/refit/scenarios beside the program's
/// bin directory, the source tree. Directories that do not exist are left out.
[[nodiscard]] std::vector<std::filesystem::path> directories();

struct Entry {
  std::string name, title, source;
  std::string model;  ///< the directory of its config.json
  std::filesystem::path file;
  std::optional<std::uint64_t> gpus;   ///< of the published run, both sides
  std::optional<std::uint32_t> ranks;  ///< processes of a scenario of many ranks
};
/// Every scenario that find_scenario finds by name, sorted. One that cannot be read says why in its title.
[[nodiscard]] std::vector<Entry> list_scenarios();

/// Sets switches of one arm from "k=v,..", as --control and --treatment give them.
void override_switches(Arm& arm, std::string_view text);

}  // namespace refit::scenario
