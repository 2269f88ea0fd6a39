// Verdicts from draws.
#include "refit/gate/decision.hpp"

#include <algorithm>
#include <cmath>

#include "gate/bootstrap.hpp"
#include "refit/base/digest.hpp"

namespace refit::gate {
namespace {

// Slower than allowed is who is so with 97.5 % of the draws, and slower at all with 99.5 %: where noise is
// small the first decides, where it is larger than the threshold the second.
constexpr double kAllowed = 0.025, kAtAll = 0.005;
/// From here on more samples are no advice.
constexpr double kHopeless = 100;

/// How far draws lie beyond something, ascending; `center` is where they were drawn around.
struct Excess {
  double center = 0;
  std::vector<double> draws;
  [[nodiscard]] double at(double p) const { return quantile(draws, p); }
};

template <typename Of>
Excess excess(Of of, double baseline, double candidate, const std::vector<double>& baselines,
              const std::vector<double>& candidates) {
  Excess result{of(baseline, candidate), {}};
  result.draws.reserve(candidates.size());
  for (std::size_t i = 0; i < candidates.size(); ++i) result.draws.push_back(of(baselines[i], candidates[i]));
  std::sort(result.draws.begin(), result.draws.end());
  return result;
}

Side side_of(const Starts& starts, double center) {
  Side side{.starts = starts.size(), .center = center};
  std::vector<double> spreads;
  for (const std::vector<double>& samples : starts) {
    side.samples += samples.size();
    spreads.push_back(summarize(samples).spread);
  }
  std::sort(spreads.begin(), spreads.end());
  side.spread = quantile(spreads, 0.5);
  return side;
}

/// Intervals narrow with the root of the number of samples.
Needed needed(const Excess& beyond, const Excess& at_all, std::size_t fewest, std::size_t most_starts) {
  double times = 1;
  if (beyond.center > 0) {
    times =
        std::max(std::pow((beyond.center - beyond.at(kAllowed)) / beyond.center, 2),
                 at_all.center > 0 ? std::pow((at_all.center - at_all.at(kAtAll)) / at_all.center, 2) : 0);
  } else if (beyond.center < 0) {
    times = std::pow((beyond.at(1 - kAllowed) - beyond.center) / -beyond.center, 2);
  } else {
    times = kHopeless;
  }
  const std::size_t least = beyond.center > 0 ? kFewestToCondemn : kFewestToPass;
  const auto more = [&](std::size_t have) {
    return static_cast<std::size_t>(std::max(1.0, std::ceil(static_cast<double>(have) * (times - 1))));
  };
  if (!(times < kHopeless)) return {.hopeless = true};
  if (most_starts > 1) return {.starts = more(most_starts)};
  return {.samples = std::max(more(fewest), fewest < least ? least - fewest : std::size_t{1})};
}

/// `beyond` what is allowed, and `at_all` beyond nothing.
void judge(const Excess& beyond, const Excess& at_all, std::size_t fewest, std::size_t most_starts,
           Decision& decision) {
  const bool slower = beyond.at(kAllowed) > 0 && at_all.at(kAtAll) > 0;
  if (slower && fewest >= kFewestToCondemn) {
    decision.verdict = Verdict::regression;
  } else if (!slower && beyond.at(1 - kAllowed) <= 0 && fewest >= kFewestToPass) {
    decision.verdict = Verdict::pass;
  } else {
    decision.verdict = Verdict::ambiguous;
    decision.needed = needed(beyond, at_all, fewest, most_starts);
  }
}

Decision limited(const Starts& starts, const Center& center, double most, std::uint64_t seed) {
  Decision decision;
  decision.candidate = side_of(starts, center.value);
  const std::vector<double> draws = draw_centers(center, between_starts({&center}), seed);
  const std::vector<double> none(draws.size());
  const Excess value = excess([&](double, double c) { return c; }, 0, center.value, none, draws);
  const Excess beyond = excess([&](double, double c) { return c - most; }, 0, center.value, none, draws);
  decision.value = value.center;
  decision.ci95 = Interval{value.at(kAllowed), value.at(1 - kAllowed)};
  judge(beyond, beyond, decision.candidate.samples, starts.size(), decision);
  return decision;
}

}  // namespace

std::string_view name_of(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::pass:
      return "PASS";
    case Verdict::improved:
      return "IMPROVED";
    case Verdict::regression:
      return "REGRESSION";
    case Verdict::ambiguous:
      return "AMBIGUOUS";
    case Verdict::invalid:
      return "INVALID";
    case Verdict::mismatch:
      return "MISMATCH";
  }
  return "";
}

Decision decide(const Starts& baseline, const Starts& candidate, const Threshold& threshold,
                std::uint64_t seed) {
  const Center a = center_of(baseline, mix64(seed + 1)), b = center_of(candidate, mix64(seed + 2));
  const Between between = between_starts({&a, &b});
  const std::vector<double> as = draw_centers(a, between, mix64(seed + 3));
  const std::vector<double> bs = draw_centers(b, between, mix64(seed + 4));
  const auto allowed = [&](double x) { return std::max(threshold.share * x, threshold.seconds); };

  Decision decision;
  decision.baseline = side_of(baseline, a.value);
  decision.candidate = side_of(candidate, b.value);
  if (a.value > 0 && std::all_of(as.begin(), as.end(), [](double x) { return x > 0; })) {
    const Excess ratio = excess([](double x, double y) { return y / x; }, a.value, b.value, as, bs);
    decision.value = ratio.center;
    decision.ci95 = Interval{ratio.at(kAllowed), ratio.at(1 - kAllowed)};
  }
  const std::size_t fewest = std::min(decision.baseline.samples, decision.candidate.samples);
  judge(excess([&](double x, double y) { return y - x - allowed(x); }, a.value, b.value, as, bs),
        excess([](double x, double y) { return y - x; }, a.value, b.value, as, bs), fewest,
        std::max(baseline.size(), candidate.size()), decision);
  if (decision.verdict != Verdict::pass || fewest < kFewestToCondemn) return decision;
  const Excess faster =
      excess([&](double x, double y) { return x - y - allowed(x); }, a.value, b.value, as, bs);
  const Excess at_all = excess([](double x, double y) { return x - y; }, a.value, b.value, as, bs);
  if (faster.at(kAllowed) > 0 && at_all.at(kAtAll) > 0) decision.verdict = Verdict::improved;
  return decision;
}

Decision decide_limit(const Starts& candidate, double most, std::uint64_t seed) {
  return limited(candidate, center_of(candidate, mix64(seed + 1)), most, mix64(seed + 2));
}

Decision decide_ratio(const Starts& over, const Starts& candidate, double most, std::uint64_t seed) {
  Decision decision =
      limited(candidate, ratio_center_of(over, candidate, mix64(seed + 1)), most, mix64(seed + 2));
  decision.baseline = side_of(over, center_of(over, mix64(seed + 3)).value);
  decision.candidate.center = decision.value.value_or(0) * decision.baseline.center;
  return decision;
}

}  // namespace refit::gate
