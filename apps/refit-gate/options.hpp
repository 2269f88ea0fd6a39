// The command line of refit-gate.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "refit/gate/gate.hpp"

namespace refit::apps {

struct GateOptions {
  std::vector<std::string> files, baseline, candidate;
  std::string limits, mutants;
  gate::Settings settings;
  gate::Selection selection;
  std::string json, junit, markdown, report;
  bool github = false, quiet = false;
};
void add_gate_options(CLI::App& app, GateOptions& options);

/// Puts the files without an option where they belong. Error(input) where that is not clear.
void sort_files(GateOptions& options);

/// Whether a page is all that was asked for: there is one candidate, and nothing to compare it with.
[[nodiscard]] bool draws_only(const GateOptions& options);

struct HistoryOptions {
  std::string folder, json;
  double least = 0.05;
  std::optional<double> min_effect_s;
  std::vector<std::string> allow;
  std::uint64_t seed = 1;
  gate::Selection selection;
};
[[nodiscard]] CLI::App* add_history(CLI::App& app, HistoryOptions& options);

}  // namespace refit::apps
