// What JSON and table say of single ranks, derived once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "refit/ranks/ranks.hpp"

namespace refit::report {

/// One rank's part in one arm.
struct RankFigures {
  const ranks::RankRow* row = nullptr;
  const ranks::RankArm* arm = nullptr;
  std::optional<double> step;                              ///< median seconds
  std::optional<double> unattributed, unattributed_share;  ///< median seconds; of the wall time of all steps
  std::uint64_t sent = 0, received = 0;                    ///< to and from others
  std::string longest_stage;                               ///< empty without stages
  std::optional<double> longest_share;                     ///< of the wall time of all steps
  /// Seconds of the last measured refit in which a round was under way, and of these the ones in which the
  /// rank packed or placed another; none without rounds.
  std::optional<double> exchanging, hidden;
};

struct RankArmFigures {
  std::vector<RankFigures> ranks;    ///< as in the result
  std::vector<std::size_t> by_step;  ///< indices, the slowest first; empty where nothing was timed
  /// The rank whose median step takes longest: the first of several.
  [[nodiscard]] const RankFigures* straggler() const {
    return by_step.empty() ? nullptr : &ranks[by_step.front()];
  }
};

/// Points into `result`, which has to outlive it.
[[nodiscard]] RankArmFigures derive(const ranks::Result& result, ranks::RankArm ranks::RankRow::*arm);

}  // namespace refit::report
