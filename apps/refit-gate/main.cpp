// refit-gate: has a result become worse than another, or than its limits.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "common/cli.hpp"
#include "common/output_file.hpp"
#include "options.hpp"
#include "refit/base/error.hpp"
#include "refit/gate/history.hpp"
#include "refit/gate/render.hpp"
#include "refit/page/page.hpp"

namespace refit::apps {
namespace {

/// Files for programs, tried before anything is computed and written before anything is printed.
class Outputs {
 public:
  explicit Outputs(std::vector<std::string> inputs) : inputs_(std::move(inputs)) {}

  /// Nothing for an empty path.
  void open(const char* option, const std::string& path) {
    files_.emplace_back();
    if (path.empty()) return;
    require_apart(option, path, inputs_);
    require_apart(option, path, outputs_);
    if (path == "-" && taken()) fail_input(fmt::format("{} -: standard output is taken already", option));
    outputs_.push_back(path);
    files_.back() = std::make_unique<OutputFile>(path);
  }

  template <typename Render>
  void write(std::size_t index, Render render) {
    if (files_[index]) files_[index]->write(render());
  }

  /// Whether standard output belongs to one of them.
  [[nodiscard]] bool taken() const {
    return std::any_of(files_.begin(), files_.end(),
                       [](const auto& file) { return file && file->is_stdout(); });
  }

  void print(std::string_view text) const { taken() ? write_stderr(text) : write_stdout(text); }

 private:
  std::vector<std::string> inputs_, outputs_;
  std::vector<std::unique_ptr<OutputFile>> files_;
};

/// A start that counted twice would look like two that agree.
void require_once(const std::vector<std::string>& files) {
  for (std::size_t i = 1; i < files.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      std::error_code ignored;
      if (!std::filesystem::equivalent(files[i], files[j], ignored)) continue;
      fail_input(fmt::format("{}: is the same file as {} on its side, and a cold start counts once", files[i],
                             files[j]));
    }
  }
}

std::vector<gate::Run> read_runs(const std::vector<std::string>& files, const gate::Selection& selection) {
  std::vector<gate::Run> runs;
  for (const std::string& file : files) runs.push_back(gate::read_run(file, selection));
  return runs;
}

int run_gate(GateOptions options) {
  sort_files(options);
  require_once(options.baseline);
  require_once(options.candidate);
  gate::require_fields(options.settings.allow);
  if (!options.mutants.empty() && options.limits.empty()) fail_input("--mutants goes with --limits");
  std::vector<std::string> inputs = options.baseline;
  inputs.insert(inputs.end(), options.candidate.begin(), options.candidate.end());
  inputs.insert(inputs.end(), {options.limits, options.mutants});
  Outputs outputs(inputs);
  outputs.open("--json", options.json);
  outputs.open("--junit", options.junit);
  outputs.open("--markdown", options.markdown);
  outputs.open("--report", options.report);
  const std::string page = options.report.empty() ? "" : page::file_to_html(options.candidate.front());
  if (draws_only(options)) {
    outputs.write(3, [&] { return page; });
    return 0;
  }

  std::optional<gate::Limits> limits;
  std::optional<gate::Mutants> mutants;
  if (!options.limits.empty()) limits = gate::read_limits(options.limits);
  if (!options.mutants.empty()) mutants = gate::read_mutants(options.mutants);
  const gate::Report report =
      gate::judge(read_runs(options.baseline, options.selection),
                  read_runs(options.candidate, options.selection), options.settings, limits, mutants);
  outputs.write(0, [&] { return gate::to_json(report); });
  outputs.write(1, [&] { return gate::to_junit(report); });
  outputs.write(2, [&] { return gate::to_markdown(report); });
  outputs.write(3, [&] { return page; });
  if (!options.quiet) outputs.print(gate::to_table(report));
  if (options.github) outputs.print(gate::to_annotations(report));
  return gate::exit_code(report.verdict);
}

int run_history(const HistoryOptions& options) {
  gate::require_fields(options.allow);
  Outputs outputs({});
  outputs.open("--json", options.json);
  const gate::History history = gate::read_history(options.folder, options.selection, options.allow,
                                                   options.least, options.min_effect_s, options.seed);
  require_apart("--json", options.json, history.files);
  outputs.write(0, [&] { return gate::to_json(history); });
  outputs.print(gate::to_table(history));
  return 0;
}

}  // namespace
}  // namespace refit::apps

int main(int argc, char** argv) {
  using namespace refit::apps;
  CLI::App app(
      "Says whether a result has become slower than a baseline or worse than its limits, and fails when it "
      "has.\n"
      "Reads refit-bench, Google Benchmark, nccl-tests and NeMo-RL metrics.",
      "refit-gate");
  GateOptions options;
  HistoryOptions history;
  add_gate_options(app, options);
  CLI::App* const history_command = add_history(app, history);
  return run_app(
      app, argc, argv,
      [&] {
        if (history_command->parsed()) return run_history(history);
        return run_gate(options);
      },
      refit::gate::kRuntimeExit);
}
