// What a gate says, for terminals, pull requests, build servers and programs.
#pragma once

#include <string>

#include "refit/gate/gate.hpp"

namespace refit::gate {

/// Plain text for people: one line a phase, the worst first in the last line.
[[nodiscard]] std::string to_table(const Report& report);

/// GitHub-flavoured Markdown that fits a comment: at most 100 rows, those that do not pass first.
[[nodiscard]] std::string to_markdown(const Report& report);

/// A test case a phase and a limit; one more where files do not fit together or are invalid.
[[nodiscard]] std::string to_junit(const Report& report);

/// Workflow commands of GitHub Actions: an error a regression, a warning an ambiguous phase, one notice.
[[nodiscard]] std::string to_annotations(const Report& report);

/// Schema refit-gate/1 (scenarios/schema/refit-gate-1.schema.json).
[[nodiscard]] std::string to_json(const Report& report);

}  // namespace refit::gate
