// In which order the tensors travel.
#pragma once

#include <cstdint>
#include <vector>

#include "reshard/problem.hpp"

namespace refit::reshard {

/// Tensors by what the first group that holds a part of them has sent of earlier tensors, ties in the order
/// of the model: all groups progress alike, and no stage of a pipeline waits for another to be done.
[[nodiscard]] std::vector<std::uint32_t> tensor_order(const Problem& problem);

}  // namespace refit::reshard
