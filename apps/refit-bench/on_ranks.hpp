// refit-bench as one of many ranks.
#pragma once

#include "options.hpp"
#include "refit/report/report.hpp"

namespace refit::apps {

/// `report` has environment and scenario, whose ranks are there. Returns the exit code; rank 0 writes what is
/// to be written. Error(input) before anything begins: not started as many ranks, or with what ranks do not
/// have.
[[nodiscard]] int bench_on_ranks(BenchOptions options, report::Report report);

}  // namespace refit::apps
