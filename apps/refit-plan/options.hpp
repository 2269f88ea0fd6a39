// The command line of refit-plan.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "common/ranks_options.hpp"
#include "refit/reshard/reshard.hpp"
#include "refit/reshard/summary.hpp"
#include "refit/scenario/scenario.hpp"

namespace refit::apps {

struct PlanOptions {
  std::string model;  ///< a scenario's name or file, a config.json or the directory that holds one
  RanksOptions ranks;
  std::string recipe;  ///< empty: the scenario's
  std::optional<std::string> ignore;
  std::string prequantize = "on";
  std::uint64_t round_bytes = 256u << 20;
  std::optional<std::uint32_t> gpus_per_node;  ///< nothing: the scenario's, else 8
  std::optional<std::uint32_t> rank;
  std::string json, explain;
  bool quiet = false;
  bool what_if = false;
  std::string platform, stack = "nemo-rl", arm = "treatment";  ///< of what_if
  reshard::Bandwidths bandwidths;
};

void add_plan_options(CLI::App& app, PlanOptions& options);

/// The scenario or model that was asked for, with the command line's recipe.
[[nodiscard]] scenario::Scenario scenario_of(const PlanOptions& options);

}  // namespace refit::apps
