// Where the table of a bench goes, and its files.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/output_file.hpp"
#include "options.hpp"
#include "refit/report/report.hpp"

namespace refit::apps {

/// The file that one option asks for, null where it does not. Error(input) for what is read or written
/// otherwise, and for a second one on standard output.
[[nodiscard]] std::unique_ptr<OutputFile> open_output(const BenchOptions& options, const char* option,
                                                      const std::optional<std::string>& path);

class Output {
 public:
  /// Tries every file, so that nobody runs for minutes first.
  explicit Output(const BenchOptions& options);

  /// JSON and page of a bench that did not run to its end: there is no trace and nothing to count.
  void unfinished(const report::Report& report);
  void table(const report::Report& report) const;
  /// Everything that was asked for. The files first: a reader of the table who has left must not cost the
  /// measurement.
  void write(const report::Report& report);

 private:
  /// What one option asked for.
  struct File {
    std::string option;
    std::string (*text)(const report::Report&);
    std::unique_ptr<OutputFile> file{};  ///< null: not asked for
  };
  static std::string to_page(const report::Report& report);
  [[nodiscard]] bool has_files() const;
  [[nodiscard]] bool is_on_stdout() const;

  bool quiet_;
  File json_{"--json", report::to_json}, trace_{"--trace", report::to_trace}, csv_{"--csv", report::to_csv},
      page_{"--report", to_page};
};

}  // namespace refit::apps
