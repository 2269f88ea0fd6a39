// NeMo-RL's timers that a projection gives seconds for.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "refit/scenario/scenario.hpp"

namespace refit::project {

inline constexpr std::string_view kTransfer = "prepare_for_generation/transfer_and_update_weights";
inline constexpr std::string_view kPrepare = "prepare_for_generation/total";
inline constexpr std::string_view kStep = "total_step_time";

/// What was published of a phase of one arm.
[[nodiscard]] inline std::optional<double> published_seconds(const scenario::Scenario& scenario,
                                                             std::string_view phase, bool control) {
  const auto found = scenario.phases.find(std::string(phase));
  if (found == scenario.phases.end()) return std::nullopt;
  return control ? found->second.control_s : found->second.treatment_s;
}

}  // namespace refit::project
