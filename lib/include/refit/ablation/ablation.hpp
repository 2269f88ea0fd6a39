// How much of the difference between control and treatment is due to each factor. In the words of game theory
// the factors are players, and a combination S is worth v(S): what a refit with the factors of S on takes,
// less what it takes with none on. Seconds; negative is faster.
//
//   alone   v({i})               the factor on, over the control ("one-on")
//   last    v(N) - v(N \ {i})    on top of all others ("one-off")
//   shapley the mean of v(S + i) - v(S) over all orders in which factors can be turned on (Shapley 1953, "A
//           Value for n-Person Games"): the sum over S without i of s! (n-s-1)! / n! (v(S + i) - v(S)). They
//           sum to v(N).
//   pairs   the Shapley-Taylor interaction index of order 2 (Sundararajan, Dhamdhere and Agarwal 2020, "The
//           Shapley Taylor Interaction Index"): 2/n times the sum over S without i and j of
//           (v(S + i + j) - v(S + i) - v(S + j) + v(S)) / C(n-1, s). Pairs sum to v(N) less all v({i}).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refit/ablation/factors.hpp"
#include "refit/time/statistics.hpp"

namespace refit::ablation {

enum class Method : std::uint8_t { one_off, one_on, shapley };
[[nodiscard]] std::string_view name_of(Method method) noexcept;  ///< "one-off"
/// Error(input) that lists the methods.
[[nodiscard]] Method parse_method(std::string_view text);

/// A shapley of k factors takes 2^k - 1 benches.
inline constexpr std::size_t kMostShapleyFactors = 6;

/// The combinations besides the control that a method has to know, in ascending order, everything on last.
/// Error(input) without factors, and for more than the method takes, with the way out.
[[nodiscard]] std::vector<Subset> needed(Method method, std::size_t factors);

/// v(S). Draws are where it could lie as well; none: nobody knows, or it is a projection.
struct Worth {
  double s = 0;
  std::vector<double> draws{};
};

inline constexpr std::size_t kDraws = 4000;
inline constexpr std::uint64_t kSeed = 1;
/// Fewer pairs say too little of their spread to draw from.
inline constexpr std::size_t kLeastPairs = 5;

/// The median of treatment less control of the same step, of the steps that one arm began and of those that
/// the other began, and the mean of both, which what going second costs is no part of; kDraws of the same of
/// resampled steps (bootstrap_medians), seeded by the combination, so that the draws of two benches are
/// independent. Error(input) unless both have the same number of samples, at least one.
[[nodiscard]] Worth measured_worth(std::span<const double> control, std::span<const double> treatment,
                                   Subset subset);

/// Those that are known; the control, worth 0, need not be there.
using Worths = std::map<Subset, Worth>;

struct Estimate {
  double s = 0;
  std::optional<Interval> ci95;  ///< none of what has no draws
};

/// Nothing of what the method does not ask for, and of what rests on a combination that is not known.
struct Effect {
  std::optional<Estimate> alone, last, shapley;
};

struct Pair {
  std::size_t first = 0, second = 0;  ///< factors
  std::optional<Estimate> interaction;
};

struct Attribution {
  std::vector<Effect> effects;          ///< a factor each
  std::optional<Estimate> whole;        ///< v(N), measured by itself
  std::optional<Estimate> sum;          ///< of the effects by the method
  std::optional<Estimate> rest;         ///< the whole less the sum; of shapley 0
  std::optional<Estimate> interaction;  ///< the whole less all `alone`; not with one-off
  std::vector<Pair> pairs;              ///< of shapley
  std::map<Subset, Estimate> combinations;
  std::vector<Subset> missing;  ///< needed and not known
};

/// Each interval is that of the same linear combination of the draws of every bench that it takes.
[[nodiscard]] Attribution attribute(Method method, std::size_t factors, const Worths& worths);

}  // namespace refit::ablation
