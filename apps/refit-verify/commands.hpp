// The subcommands of refit-verify.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "common/refit_options.hpp"
#include "report_output.hpp"

namespace refit::apps {

struct SelfOptions {
  RefitOptions refit;
  unsigned max_report = 10;
};

struct MutantsOptions {
  RefitOptions refit;
  std::vector<std::string> without;
  std::string json;
  bool list = false;
};

struct FilesOptions {
  std::string a, b;
  std::vector<std::string> tensors;
  ReportOptions report;
};

struct QuantizedOptions {
  std::string source, quantized;
  ReportOptions report;
};

struct EngineOptions {
  std::string source, dump, model, previous;
  std::string engine = "vllm", layout = "checkpoint", rounding = "flashinfer";
  std::string recipe, zero_scale;  ///< empty: by model, by layout
  std::vector<std::string> ignore;
  std::uint32_t tp_size = 1, tp_rank = 0, ep_size = 1, ep_rank = 0;
  ReportOptions report;
};

[[nodiscard]] CLI::App* add_self(CLI::App& app, SelfOptions& options);
[[nodiscard]] CLI::App* add_mutants(CLI::App& app, MutantsOptions& options);
[[nodiscard]] CLI::App* add_files(CLI::App& app, FilesOptions& options);
[[nodiscard]] CLI::App* add_quantized(CLI::App& app, QuantizedOptions& options);
[[nodiscard]] CLI::App* add_engine(CLI::App& app, EngineOptions& options);
[[nodiscard]] int run_files(const FilesOptions& options);
[[nodiscard]] int run_quantized(const QuantizedOptions& options);
[[nodiscard]] int run_engine(const EngineOptions& options);
[[nodiscard]] int run_self(SelfOptions options);
[[nodiscard]] int run_mutants(const MutantsOptions& options);

/// A spec that carries out and verifies one step of its control arm alone.
[[nodiscard]] run::BenchSpec one_verified_step(const scenario::Scenario& scenario,
                                               const RefitOptions& options);

}  // namespace refit::apps
