// The command line of refit-bench.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/refit_options.hpp"

namespace refit::apps {

struct BenchOptions {
  RefitOptions refit;
  bool list = false, dry_run = false, quiet = false;
  bool host_traffic = true;
  unsigned steps = 20;
  std::optional<unsigned> warmup;
  double time_budget_s = 150;
  std::string verify = "first";
  std::optional<std::string> platform;  ///< whereto a refit is projected; nothing: nowhere
  std::string stack;                    ///< empty: nemo-rl, on the machine itself refit
  bool project_only = false, validate_projection = false;
  std::optional<std::string> json, trace, csv, report;  ///< "-": standard output
  std::vector<std::string> sweeps;                      ///< "KEY=V1,V2,..", an axis each
};

void add_bench_options(CLI::App& app, BenchOptions& options);

/// Error(input) for options that contradict each other.
void check(const BenchOptions& options);

/// Of each control thread, with ranks of each rank: all of them travel to every rank.
[[nodiscard]] std::uint32_t spans_to_keep(const BenchOptions& options, std::uint32_t ranks);

/// How long and how carefully to run, into a spec whose model is chosen.
void set_run(const BenchOptions& options, run::BenchSpec& spec);

}  // namespace refit::apps
