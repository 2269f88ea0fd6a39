// --ablation: how much of the difference between the arms is due to which switch.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "options.hpp"

namespace refit::apps {

struct AblationOptions {
  std::optional<std::string> method;  ///< nothing: no ablation
  std::string factors;                ///< empty: every switch that differs
};

void add_ablation_options(CLI::App& app, AblationOptions& options);

/// Benches each combination that the method needs, against the control, and projects them where --platform
/// asks for it; --project-only projects alone. Returns the highest exit code of all benches.
int ablate(const BenchOptions& options, const AblationOptions& asked, const std::vector<std::string>& argv);

}  // namespace refit::apps
