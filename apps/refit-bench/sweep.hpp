// --sweep: a bench for every combination of settings, in turn.
#pragma once

#include <string>
#include <vector>

#include "options.hpp"

namespace refit::apps {

/// Returns the highest exit code of all points: one that fails does not stop the others.
[[nodiscard]] int sweep(const BenchOptions& options, const std::vector<std::string>& argv);

}  // namespace refit::apps
