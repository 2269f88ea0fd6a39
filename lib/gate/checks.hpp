// Candidates against limits, and what an undecided case lacks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "refit/gate/gate.hpp"

namespace refit::gate {

/// One result a limit, in the order of the file. Error(input) when a limit names what no file has, or mutants
/// that were not given.
[[nodiscard]] std::vector<LimitResult> check_limits(const Limits& limits, const std::vector<Run>& candidate,
                                                    const std::optional<Mutants>& mutants,
                                                    std::uint64_t seed);

/// How an ambiguous case would be settled, for people; empty for the others.
[[nodiscard]] std::string reason_of(const Decision& decision);

}  // namespace refit::gate
