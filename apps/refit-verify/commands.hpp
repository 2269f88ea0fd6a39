// The subcommands of refit-verify.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "common/refit_options.hpp"

namespace refit::apps {

struct SelfOptions {
  RefitOptions refit;
  unsigned max_report = 10;
};

struct MutantsOptions {
  RefitOptions refit;
  std::vector<std::string> without;
  bool list = false;
};

[[nodiscard]] CLI::App* add_self(CLI::App& app, SelfOptions& options);
[[nodiscard]] CLI::App* add_mutants(CLI::App& app, MutantsOptions& options);
[[nodiscard]] int run_self(SelfOptions options);
[[nodiscard]] int run_mutants(const MutantsOptions& options);

/// A spec that carries out and verifies one step of its control arm alone.
[[nodiscard]] run::BenchSpec one_verified_step(const scenario::Scenario& scenario,
                                               const RefitOptions& options);

}  // namespace refit::apps
