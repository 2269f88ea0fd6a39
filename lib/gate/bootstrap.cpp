// A random-effects bootstrap: starts, then samples within them.
#include "gate/bootstrap.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "time/random.hpp"

namespace refit::gate {
namespace {

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return quantile(values, 0.5);
}

/// Student's t over the normal distribution's 1.96, at 97.5 %: how much wider an interval has to be whose
/// spread was learnt from so few.
double widening(std::size_t degrees) {
  constexpr std::array kT = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228};
  constexpr double kNormal = 1.960;
  if (degrees <= kT.size()) return kT[degrees - 1] / kNormal;
  return 1 + 2.4 / (kNormal * static_cast<double>(degrees));  // the expansion's first term
}

/// Variance of the draws over the square of their start's median.
double relative_variance(const std::vector<double>& draws, double median) {
  double sum = 0;
  for (const double draw : draws) sum += (draw - median) * (draw - median);
  return sum / static_cast<double>(draws.size()) / (median * median);
}

}  // namespace

Center center_of(const Starts& starts, std::uint64_t seed) {
  Center center;
  for (const std::vector<double>& samples : starts) {
    center.medians.push_back(median_of(samples));
    center.draws.push_back(bootstrap_medians(samples, kDraws, mix64(seed + center.medians.size())));
  }
  center.value = median_of(center.medians);
  return center;
}

Center ratio_center_of(const Starts& over, const Starts& starts, std::uint64_t seed) {
  Center center;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const double base = median_of(over[i]);
    center.medians.push_back(median_of(starts[i]) / base);
    // Ascending as they are: draw_centers takes them at random.
    center.draws.push_back(bootstrap_ratios(over[i], starts[i], mix64(seed + i + 1)));
  }
  center.value = median_of(center.medians);
  return center;
}

Between between_starts(const std::vector<const Center*>& sides) {
  std::vector<double> shares;
  double squares = 0, within = 0;
  std::size_t degrees = 0, starts = 0;
  for (const Center* side : sides) {
    const std::size_t m = side->medians.size();
    if (m < 2 || side->value == 0) continue;
    for (std::size_t i = 0; i < m; ++i) {
      const double share = side->medians[i] / side->value - 1;
      squares += share * share;
      // A side's own centre lies among its starts: they look closer together than they are.
      shares.push_back(share * std::sqrt(static_cast<double>(m) / static_cast<double>(m - 1)));
      if (side->medians[i] != 0) within += relative_variance(side->draws[i], side->medians[i]);
    }
    degrees += m - 1;
    starts += m;
  }
  if (degrees == 0 || squares == 0) return {};
  // What the samples within explain is drawn with them; the rest is between the starts (the moment estimator
  // of DerSimonian and Laird 1986).
  const double all = squares / static_cast<double>(degrees);
  const double rest = std::max(0.0, 1 - within / static_cast<double>(starts) / all);
  for (double& share : shares) share *= std::sqrt(rest) * widening(degrees);
  return {std::move(shares)};
}

std::vector<double> draw_centers(const Center& side, const Between& between, std::uint64_t seed) {
  const std::size_t m = side.medians.size();
  Random random(seed);
  std::vector<double> centers(kDraws), drawn(m);
  for (double& center : centers) {
    for (double& value : drawn) {
      const std::size_t start = random.below(m);
      const std::vector<double>& draws = side.draws[start];
      const double draw = draws[random.below(draws.size())];
      if (between.shares.empty() || side.medians[start] == 0) {
        value = m == 1 ? draw : side.value + (draw - side.medians[start]);
        continue;
      }
      const double share = between.shares[random.below(between.shares.size())];
      value = side.value * (1 + share) * (draw / side.medians[start]);
    }
    center = m == 1 ? drawn.front() : median_of(drawn);
  }
  return centers;
}

}  // namespace refit::gate
