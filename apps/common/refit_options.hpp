// The options that say which refit: scenario or model, switches, slice, threads. Shared by the apps that run
// refits.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "common/backends.hpp"
#include "common/ranks_options.hpp"
#include "refit/run/bench.hpp"
#include "refit/scenario/replay.hpp"
#include "refit/scenario/scenario.hpp"

namespace refit::apps {

struct RefitOptions {
  std::string scenario, model;
  std::string checkpoint;             ///< weights of the first step; empty: seeded
  std::string control, treatment;     ///< "k=v,.."
  std::string recipe, moe_layout;     ///< empty: the scenario's
  std::optional<std::string> ignore;  ///< "WORD,WORD"; empty text clears the scenario's list
  BackendOptions backend;
  std::string transport = "auto";
  RanksOptions ranks;
  std::uint64_t buffer_size = 0;  ///< 0: the switches'
  scenario::ReplayRequest replay;
  double timeout_s = 60;
  std::uint64_t seed = 1;
};

void add_refit_options(CLI::App& app, RefitOptions& options);

/// The scenario that was asked for, with the command line's changes. Error(input) unless exactly one of
/// --scenario and
/// --model is given.
[[nodiscard]] scenario::Scenario chosen_scenario(const RefitOptions& options);

/// Reads --backend and --device into the replay request, with this transport ("auto" or a name) and the
/// timeout; its threads stay.
void set_backend(RefitOptions& options, const std::string& transport);

/// set_backend with --transport; completes the request: on a GPU the default
/// memory budget is what is free there. Without a usable GPU, a dry run assumes one that holds everything.
void choose_backend(RefitOptions& options, bool dry_run);

}  // namespace refit::apps
