// Where the centre of a side could lie as well: draws by a bootstrap that knows cold starts.
#pragma once

#include <cstdint>
#include <vector>

#include "refit/gate/decision.hpp"

namespace refit::gate {

/// Each 0.5 % tail holds ten draws.
inline constexpr std::size_t kDraws = 2000;

/// One side: what every start says, resampled.
struct Center {
  double value = 0;                        ///< the median of the starts' medians
  std::vector<double> medians;             ///< of each start
  std::vector<std::vector<double>> draws;  ///< of each start's median: kDraws of them
};
[[nodiscard]] Center center_of(const Starts& starts, std::uint64_t seed);

/// A centre whose starts' medians are ratios: of what was timed in turns.
[[nodiscard]] Center ratio_center_of(const Starts& over, const Starts& starts, std::uint64_t seed);

/// How starts differ beyond what their own samples explain, as shares of their side's centre: learnt from all
/// sides together, so that one start may be compared with many. Nothing where every side has one start: then
/// nobody knows.
struct Between {
  std::vector<double> shares;  ///< what a start may lie above or below its side's centre
};
[[nodiscard]] Between between_starts(const std::vector<const Center*>& sides);

/// kDraws centres of a side: of each, starts are drawn, then their shares, then their samples.
[[nodiscard]] std::vector<double> draw_centers(const Center& side, const Between& between,
                                               std::uint64_t seed);

}  // namespace refit::gate
