// What an ablation runs and projects: the factors of a scenario's arms, and its combinations as scenarios.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ablation.hpp"
#include "refit/ablation/ablation.hpp"
#include "refit/scenario/scenario.hpp"

namespace refit::apps {

inline constexpr std::string_view kTransferPhase = "prepare_for_generation/transfer_and_update_weights",
                                  kTotalPhase = "prepare_for_generation/total",
                                  kSwapPhase = "policy_and_reference_logprobs/reference_swap";

struct Combinations {
  ablation::Method method = ablation::Method::shapley;
  std::vector<ablation::Factor> factors;
  std::vector<ablation::Setting> left_out;  ///< differ, and stay as in the control
  std::vector<ablation::Subset> subsets;    ///< all that the method needs
  std::vector<std::string> phases;          ///< that are attributed: with host traffic all three
};

/// Error(input) for what --ablation and --factors cannot mean for this scenario: a combination that cannot
/// run, too.
[[nodiscard]] Combinations choose_combinations(const scenario::Scenario& scenario,
                                               const AblationOptions& asked);

/// The control with these factors as in the treatment.
[[nodiscard]] scenario::Arm combined(const scenario::Scenario& scenario,
                                     const std::vector<ablation::Factor>& factors, ablation::Subset subset);

}  // namespace refit::apps
