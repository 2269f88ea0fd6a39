// Whether what was timed has become slower: a verdict from samples that come in cold starts. docs/gate.md
// says why it is decided this way, and what it finds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "refit/time/statistics.hpp"

namespace refit::gate {

enum class Verdict : std::uint8_t {
  pass,        ///< not slower by more than what was allowed
  improved,    ///< faster by more than that
  regression,  ///< slower by more than that, or beyond a limit
  ambiguous,   ///< the samples do not say which
  invalid,     ///< not fit to be compared: failed verification, unattributed time, a missing phase
  mismatch,    ///< of different things
};
[[nodiscard]] std::string_view name_of(Verdict verdict) noexcept;

/// The samples of each cold start, in the order in which they were taken.
using Starts = std::vector<std::vector<double>>;

/// How much slower is still no regression: the larger of a share of the baseline and of seconds.
struct Threshold {
  double share = 0.05;
  double seconds = 0;
};

/// Nobody is called slower or faster with fewer samples a side, and nobody passes with fewer than the other.
inline constexpr std::size_t kFewestToCondemn = 8, kFewestToPass = 5;

/// What would settle an ambiguous case, about.
struct Needed {
  std::size_t samples = 0;  ///< more of them on each side; 0 when starts are what lacks
  std::size_t starts = 0;   ///< more cold starts on each side
  bool hopeless = false;    ///< what was measured lies on the threshold: no affordable number would do
};

struct Side {
  std::size_t starts = 0, samples = 0;
  double center = 0;  ///< the median of the starts' medians
  double spread = 0;  ///< the median of the starts' spreads (Summary::spread)
};

struct Decision {
  Verdict verdict = Verdict::ambiguous;
  Side baseline, candidate;      ///< against a limit there is no baseline
  std::optional<double> value;   ///< candidate over baseline; against a limit what is limited; nothing over 0
  std::optional<Interval> ci95;  ///< of the value
  std::optional<Needed> needed;  ///< when ambiguous
};

/// Each side has a start, and each start a sample. Seeded: the same samples give the same decision.
[[nodiscard]] Decision decide(const Starts& baseline, const Starts& candidate, const Threshold& threshold,
                              std::uint64_t seed);

/// Whether samples, of seconds or of anything else, stay at or below `most`.
[[nodiscard]] Decision decide_limit(const Starts& candidate, double most, std::uint64_t seed);

/// Whether the ratio of two things that were timed in turns stays at or below `most`: start by start, sample
/// by sample where there are as many of both.
[[nodiscard]] Decision decide_ratio(const Starts& over, const Starts& candidate, double most,
                                    std::uint64_t seed);

}  // namespace refit::gate
