// NeMo-RL's timers that a projection gives seconds for.
#pragma once

#include <string_view>

namespace refit::project {

inline constexpr std::string_view kTransfer = "prepare_for_generation/transfer_and_update_weights";
inline constexpr std::string_view kPrepare = "prepare_for_generation/total";
inline constexpr std::string_view kStep = "total_step_time";

}  // namespace refit::project
