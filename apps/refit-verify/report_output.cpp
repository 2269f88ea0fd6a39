// Where the report of an audit goes: text for people, JSON, JUnit XML, and the exit code.
#include "report_output.hpp"

#include <optional>

#include "common/cli.hpp"
#include "common/output_file.hpp"
#include "refit/base/error.hpp"

namespace refit::apps {

void add_report_options(CLI::App& command, ReportOptions& options) {
  add_count_option(command, "--max-report", options.max_report, std::size_t{0},
                   "Tensors named when they differ");
  command.add_option("--json", options.json, "Write the report as JSON (- for standard output)")
      ->type_name("FILE|-");
  command.add_option("--junit", options.junit, "Write the report as JUnit XML, a test case a tensor")
      ->type_name("FILE");
  add_threads_option(command, options.threads, "[all CPUs that may be used]");
}

int report_audit(const ReportOptions& options, const std::vector<std::string>& inputs,
                 const std::function<audit::Report(ThreadPool&)>& audit) {
  require_apart_from_checkpoints("--json", options.json, inputs);
  require_apart_from_checkpoints("--junit", options.junit, inputs);
  if (options.json == "-" && options.junit == "-")
    fail_input("--json - and --junit - would share standard output");
  if (!options.junit.empty() && options.junit != "-") require_apart("--json", options.json, {options.junit});
  std::optional<OutputFile> json, junit;
  if (!options.json.empty()) json.emplace(options.json);
  if (!options.junit.empty()) junit.emplace(options.junit);
  ThreadPool pool(options.threads);
  const audit::Report report = audit(pool);
  if (json) json->write(audit::to_json(report));
  if (junit) junit->write(audit::to_junit(report));
  const std::string text = audit::to_text(report, options.max_report);
  const bool taken = (json && json->is_stdout()) || (junit && junit->is_stdout());
  taken ? write_stderr(text) : write_stdout(text);
  return report.equal() ? 0 : exit_code(ErrorKind::check);
}

}  // namespace refit::apps
