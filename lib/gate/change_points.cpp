// Binary segmentation by rank sums; Pettitt 1979 for one cut, Matteson and James 2014 for the permutation.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "refit/gate/history.hpp"
#include "refit/time/statistics.hpp"
#include "time/random.hpp"

namespace refit::gate {
namespace {

constexpr std::size_t kLeastStretch = 3, kLeastSeries = 8, kShuffles = 999;
constexpr double kSignificant = 0.01;

/// Ranks of the values; equal ones share theirs.
std::vector<double> ranks_of(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t i = 0; i < order.size();) {
    std::size_t end = i;
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    for (std::size_t k = i; k < end; ++k) ranks[order[k]] = 0.5 * static_cast<double>(i + end + 1);
    i = end;
  }
  return ranks;
}

struct Cut {
  std::size_t first = 0;
  double score = 0;  ///< standard deviations of the rank sum
};

Cut best_cut(const std::vector<double>& ranks) {
  const auto n = static_cast<double>(ranks.size());
  Cut best;
  double sum = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const auto left = static_cast<double>(i);
    if (i >= kLeastStretch && i + kLeastStretch <= ranks.size()) {
      const double expected = left * (n + 1) / 2, variance = left * (n - left) * (n + 1) / 12;
      const double score = std::abs(sum - expected) / std::sqrt(variance);
      if (score > best.score) best = {i, score};
    }
    sum += ranks[i];
  }
  return best;
}

double median_of(std::span<const double> values) {
  return summarize(values).median;
}

double absolute_deviations(std::span<const double> values) {
  const double median = median_of(values);
  return std::accumulate(values.begin(), values.end(), 0.0,
                         [&](double sum, double value) { return sum + std::abs(value - median); });
}

/// Ranks do not see how far values are apart, and place a cut a little too near to the middle: the place
/// among its neighbours that leaves the smallest deviations.
std::size_t placed(std::span<const double> values, std::size_t cut) {
  constexpr std::size_t kNeighbours = 8;
  const std::size_t first = std::max(kLeastStretch, cut - std::min(cut, kNeighbours));
  const std::size_t last = std::min(values.size() - kLeastStretch, cut + kNeighbours);
  std::size_t best = cut;
  double least = absolute_deviations(values.first(cut)) + absolute_deviations(values.subspan(cut));
  for (std::size_t at = first; at <= last; ++at) {
    const double left = absolute_deviations(values.first(at)) + absolute_deviations(values.subspan(at));
    if (left < least) {
      best = at;
      least = left;
    }
  }
  return best;
}

class Segmentation {
 public:
  Segmentation(std::span<const double> values, const Threshold& least, std::uint64_t seed)
      : values_(values), least_(least), random_(seed) {}

  std::vector<ChangePoint> run() {
    split(0, values_.size());
    std::sort(points_.begin(), points_.end(),
              [](const ChangePoint& a, const ChangePoint& b) { return a.first < b.first; });
    // Levels are those of the final stretches.
    for (std::size_t i = 0; i < points_.size(); ++i) {
      const std::size_t begin = i == 0 ? 0 : points_[i - 1].first;
      const std::size_t end = i + 1 == points_.size() ? values_.size() : points_[i + 1].first;
      points_[i].before = median_of(values_.subspan(begin, points_[i].first - begin));
      points_[i].after = median_of(values_.subspan(points_[i].first, end - points_[i].first));
    }
    return std::move(points_);
  }

 private:
  void split(std::size_t begin, std::size_t end) {
    if (end - begin < kLeastSeries) return;
    const std::span<const double> part = values_.subspan(begin, end - begin);
    std::vector<double> ranks = ranks_of(part);
    const Cut cut = best_cut(ranks);
    if (cut.score == 0) return;
    const std::size_t first = placed(part, cut.first);
    const double before = median_of(part.first(first)), after = median_of(part.subspan(first));
    if (std::abs(after - before) <= std::max(least_.share * before, least_.seconds)) return;
    const double p = shuffled_as_clear(ranks, cut.score);
    if (p > kSignificant) return;
    points_.push_back({begin + first, before, after, p});
    split(begin, begin + first);
    split(begin + first, end);
  }

  double shuffled_as_clear(std::vector<double>& ranks, double score) {
    std::size_t as_clear = 1;  // the series itself
    for (std::size_t shuffle = 0; shuffle < kShuffles; ++shuffle) {
      for (std::size_t i = ranks.size(); i > 1; --i) std::swap(ranks[i - 1], ranks[random_.below(i)]);
      if (best_cut(ranks).score >= score) ++as_clear;
    }
    return static_cast<double>(as_clear) / static_cast<double>(kShuffles + 1);
  }

  std::span<const double> values_;
  Threshold least_;
  Random random_;
  std::vector<ChangePoint> points_;
};

}  // namespace

std::vector<ChangePoint> change_points(std::span<const double> values, const Threshold& least,
                                       std::uint64_t seed) {
  return Segmentation(values, least, seed).run();
}

}  // namespace refit::gate
