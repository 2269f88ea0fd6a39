// Where the table and the JSON of a bench go.
#pragma once

#include <optional>

#include "common/cli.hpp"
#include "common/output_file.hpp"
#include "options.hpp"
#include "refit/report/report.hpp"

namespace refit::apps {

class Output {
 public:
  explicit Output(const BenchOptions& options) : quiet_(options.quiet) {
    if (!options.json) return;
    require_apart_from_checkpoints("--json", *options.json, {options.refit.checkpoint, options.refit.model});
    json_.emplace(*options.json);
  }

  void table(const report::Report& report) const {
    if (quiet_ && json_) return;
    const std::string text = report::to_table(report);
    if (json_ && json_->is_stdout()) {
      write_stderr(text);
    } else {
      write_stdout(text);
    }
  }

  void json(const report::Report& report) {
    if (json_) json_->write(report::to_json(report));
  }

 private:
  bool quiet_;
  std::optional<OutputFile> json_;
};

}  // namespace refit::apps
