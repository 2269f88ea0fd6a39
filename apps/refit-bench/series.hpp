// Benches one after the other, of a sweep or an ablation: what goes with them, one of them, their output.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/output_file.hpp"
#include "options.hpp"
#include "refit/report/report.hpp"
#include "refit/scenario/scenario.hpp"

namespace refit::apps {

/// Error(input) for files that are of one bench, with those that the series has.
void check_series_files(const BenchOptions& options, const std::string& series, bool has_page);

/// What is wrong for every bench is refused before the first one: ranks that are started for one bench, a
/// backend that is not here.
void check_series(BenchOptions options, const std::string& series, scenario::Scenario scenario);

/// Runs one bench of the scenario that it is given. Returns its exit code; what ended it early is in the
/// report alone.
int run_in_series(BenchOptions options, const std::function<scenario::Scenario()>& scenario,
                  const std::vector<std::string>& argv, report::Report& report);

/// --json and --report, and lines on the stream that they leave free.
class SeriesOutput {
 public:
  /// Tries both files.
  explicit SeriesOutput(const BenchOptions& options);
  void say(const std::string& text) const;
  /// `what` the page is of: "the sweep".
  void write(const std::string& json, const std::string& what);

 private:
  bool quiet_;
  std::unique_ptr<OutputFile> json_, page_;
};

}  // namespace refit::apps
