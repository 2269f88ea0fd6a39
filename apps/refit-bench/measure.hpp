// One bench of two processes, or of a simulated rank, from its options to its report.
#pragma once

#include "options.hpp"
#include "refit/report/report.hpp"

namespace refit::apps {

/// Chooses the backend of a report whose scenario is there. Error(input) for what does not go with it.
void prepare(BenchOptions& options, const report::Report& report);

/// Fills in everything else, after prepare(). What ends it early is thrown, and the report says it, too:
/// refused or failed.
void measure(const BenchOptions& options, report::Report& report);

}  // namespace refit::apps
