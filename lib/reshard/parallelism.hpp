// What sizes of a parallelism may be combined.
#pragma once

#include <string>
#include <string_view>

#include "refit/reshard/parallelism.hpp"

namespace refit::reshard {

/// Most ranks of one side, and the largest size of any kind.
inline constexpr std::uint64_t kMostRanks = 65536;

/// "trainer", "generator".
[[nodiscard]] std::string_view name_of(Side side) noexcept;

/// Throws Error(input) for a size of 0, fsdp together with anything but dp, etp * ep that does not divide tp
/// * dp, pp_layers of another number of stages and more than kMostRanks ranks. `what` begins the sentence.
void check(const Parallelism& parallelism, const std::string& what);

}  // namespace refit::reshard
