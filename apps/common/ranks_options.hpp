// --train, --gen and how the two sides meet. Shared by the apps that know many ranks.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "refit/reshard/layout.hpp"
#include "refit/scenario/scenario.hpp"

namespace refit::apps {

struct RanksOptions {
  std::optional<std::string> train, gen;  ///< nothing: the scenario's
  std::string trainer_form;               ///< empty: megatron, with fsdp hf
  bool separate = false;
  std::optional<std::uint32_t> simulate_ranks, simulate_rank;
};

void add_ranks_options(CLI::App& app, RanksOptions& options);
/// --simulate-ranks and --simulate-rank.
void add_simulation_options(CLI::App& app, RanksOptions& options);

/// What a side's text says; Error(input) that begins with the option.
[[nodiscard]] reshard::Parallelism parallelism_option(const char* option, const std::string& text,
                                                      reshard::Side side);
[[nodiscard]] reshard::TrainerForm trainer_form_of(const RanksOptions& options,
                                                   const reshard::Parallelism& trainer);

/// The ranks to run: the scenario's, changed by the options; nothing where neither speaks of ranks.
[[nodiscard]] std::optional<scenario::Ranks> chosen_ranks(const RanksOptions& options,
                                                          const scenario::Scenario& scenario);

}  // namespace refit::apps
