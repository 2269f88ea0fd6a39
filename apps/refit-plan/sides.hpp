// Both sides' parallelism: the command line's, else what the scenario says of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "options.hpp"
#include "refit/reshard/layout.hpp"
#include "refit/scenario/scenario.hpp"

namespace refit::apps {

struct Sides {
  reshard::Parallelism trainer, generator;
  reshard::TrainerForm form = reshard::TrainerForm::megatron;
  std::uint32_t gpus_per_node = 0;
  std::vector<std::string> notes;  ///< what was assumed
};

/// Error(input) naming the option.
[[nodiscard]] Sides sides_of(const PlanOptions& options, const scenario::Scenario& scenario);

}  // namespace refit::apps
