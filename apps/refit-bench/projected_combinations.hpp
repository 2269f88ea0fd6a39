// The combinations of an ablation on hardware that is not here.
#pragma once

#include "combinations.hpp"
#include "options.hpp"
#include "refit/ablation/report.hpp"
#include "refit/scenario/scenario.hpp"

namespace refit::apps {

/// With --platform and --stack. Error(input): what a projection refuses.
[[nodiscard]] ablation::Projected project_combinations(const BenchOptions& options,
                                                       const scenario::Scenario& scenario,
                                                       const Combinations& chosen);

}  // namespace refit::apps
