// Which single change of a refit would save most, by the same replay that a projection is.
#pragma once

#include <string>
#include <vector>

#include "refit/project/project.hpp"

namespace refit::project {

inline constexpr std::string_view kWhatIfSchema = "refit-what-if/1";

struct Candidate {
  std::string change;     ///< "buffer_size=8GiB", "gen ep=8", "4 network adapters for each GPU", ..
  double transfer_s = 0;  ///< transfer_and_update_weights with it
};

struct WhatIf {
  ProjectedArm base;
  std::vector<Candidate> candidates;  ///< those that can be done, the fastest first
  /// "shuffle=fused: why not", of those that a plan refuses.
  std::vector<std::string> refused;
};

/// Changes one thing at a time of the scenario's treatment (`of_control`: of its control): a switch, the
/// buffers' size, expert parallelism of either side, network adapters, the host's speed, the stack.
[[nodiscard]] WhatIf what_if(const scenario::Scenario& scenario, const model::Inventory& model,
                             const Platform& platform, const Stack& stack, bool of_control);

[[nodiscard]] std::string to_json(const WhatIf& what_if, const scenario::Scenario& scenario,
                                  const Platform& platform, const Stack& stack);
/// The five that would help most.
[[nodiscard]] std::string to_text(const WhatIf& what_if, const scenario::Scenario& scenario,
                                  const Platform& platform, const Stack& stack);

}  // namespace refit::project
