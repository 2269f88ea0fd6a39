// Every effect is a weighted sum of what combinations are worth: the weights first, then values and draws.
#include "refit/ablation/ablation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/json.hpp"
#include "refit/base/digest.hpp"
#include "refit/base/error.hpp"

namespace refit::ablation {
namespace {

constexpr std::array kMethods{std::pair{Method::one_off, std::string_view("one-off")},
                              std::pair{Method::one_on, std::string_view("one-on")},
                              std::pair{Method::shapley, std::string_view("shapley")}};

/// How often each combination is taken; those without weight are not needed.
using Weights = std::map<Subset, double>;

void add(Weights& to, const Weights& from, double times) {
  for (const auto& [subset, weight] : from) to[subset] += times * weight;
}

constexpr Subset one(std::size_t factor) {
  return Subset{1} << factor;
}

double binomial(std::size_t n, std::size_t k) {
  double value = 1;
  for (std::size_t i = 1; i <= k; ++i)
    value = value * static_cast<double>(n - k + i) / static_cast<double>(i);
  return value;
}

std::size_t size_of(Subset subset) {
  return static_cast<std::size_t>(std::popcount(subset));
}

Weights alone_weights(std::size_t factor) {
  return {{one(factor), 1.0}};
}

Weights last_weights(std::size_t n, std::size_t factor) {
  return {{all_of(n), 1.0}, {all_of(n) & ~one(factor), -1.0}};
}

/// s! (n-s-1)! / n! is 1 / (n C(n-1, s)).
Weights shapley_weights(std::size_t n, std::size_t factor) {
  Weights weights;
  for (Subset s = 0; s <= all_of(n); ++s) {
    if ((s & one(factor)) != 0) continue;
    const double weight = 1 / (static_cast<double>(n) * binomial(n - 1, size_of(s)));
    weights[s | one(factor)] += weight;
    weights[s] -= weight;
  }
  return weights;
}

Weights pair_weights(std::size_t n, std::size_t i, std::size_t j) {
  Weights weights;
  for (Subset s = 0; s <= all_of(n); ++s) {
    if ((s & (one(i) | one(j))) != 0) continue;
    const double weight = 2 / (static_cast<double>(n) * binomial(n - 1, size_of(s)));
    weights[s | one(i) | one(j)] += weight;
    weights[s | one(i)] -= weight;
    weights[s | one(j)] -= weight;
    weights[s] += weight;
  }
  return weights;
}

Interval middle_95(std::vector<double> draws) {
  std::sort(draws.begin(), draws.end());
  return {.low = quantile(draws, 0.025), .high = quantile(draws, 0.975)};
}

/// The k-th draws of all benches make the k-th draw of the sum. The control's own worth is 0.
std::optional<Estimate> weighted(const Weights& weights, const Worths& worths) {
  Estimate estimate;
  std::vector<double> draws(kDraws);
  bool drawn = true;
  for (const auto& [subset, weight] : weights) {
    if (subset == 0) continue;
    const auto worth = worths.find(subset);
    if (worth == worths.end()) return std::nullopt;
    estimate.s += weight * worth->second.s;
    drawn = drawn && worth->second.draws.size() == kDraws;
    for (std::size_t k = 0; drawn && k < kDraws; ++k) draws[k] += weight * worth->second.draws[k];
  }
  if (drawn) estimate.ci95 = middle_95(std::move(draws));
  return estimate;
}

}  // namespace

std::string_view name_of(Method method) noexcept {
  return kMethods[static_cast<std::size_t>(method)].second;
}

Method parse_method(std::string_view text) {
  for (const auto& [method, name] : kMethods) {
    if (name == text) return method;
  }
  fail_input(fmt::format("{} is not one of one-off, one-on, shapley", json_quoted(text)));
}

std::vector<Subset> needed(Method method, std::size_t factors) {
  const std::size_t most = method == Method::shapley ? kMostShapleyFactors : kMostFactors;
  if (factors == 0) fail_input("there is no factor to attribute anything to");
  if (factors > most) {
    fail_input(
        fmt::format("{} over {} factors would take {} benches, and {} factors are the most: choose some, or "
                    "join with '+' "
                    "what may move together, as in --factors prequantize,loader+shuffle",
                    name_of(method), factors,
                    method == Method::shapley ? (std::uint64_t{1} << factors) - 1 : factors + 1, most));
  }
  const Subset all = all_of(factors);
  std::vector<Subset> subsets{all};
  if (method == Method::shapley) {
    for (Subset s = 1; s < all; ++s) subsets.push_back(s);
  }
  for (std::size_t i = 0; i < factors && method != Method::shapley; ++i) {
    subsets.push_back(method == Method::one_on ? one(i) : all & ~one(i));
  }
  std::sort(subsets.begin(), subsets.end());
  subsets.erase(std::unique(subsets.begin(), subsets.end()), subsets.end());
  std::erase(subsets, Subset{0});
  return subsets;
}

Worth measured_worth(std::span<const double> control, std::span<const double> treatment, Subset subset) {
  if (control.size() != treatment.size() || control.empty()) {
    fail_input(fmt::format("{} samples of the control and {} of the combination are no pairs", control.size(),
                           treatment.size()));
  }
  // Which arm goes first alternates from step to step, and who goes second may be slower.
  std::array<std::vector<double>, 2> orders;
  for (std::size_t i = 0; i < control.size(); ++i) orders[i % 2].push_back(treatment[i] - control[i]);
  if (orders[1].empty()) return {.s = orders[0].front()};
  Worth worth{.s = (summarize(orders[0]).median + summarize(orders[1]).median) / 2};
  if (control.size() < kLeastPairs) return worth;
  worth.draws = bootstrap_medians(orders[0], kDraws, mix64(kSeed + 2 * std::uint64_t{subset}));
  const std::vector<double> others =
      bootstrap_medians(orders[1], kDraws, mix64(kSeed + 2 * std::uint64_t{subset} + 1));
  for (std::size_t i = 0; i < worth.draws.size(); ++i) worth.draws[i] = (worth.draws[i] + others[i]) / 2;
  return worth;
}

Attribution attribute(Method method, std::size_t factors, const Worths& worths) {
  Attribution result;
  for (const Subset subset : needed(method, factors)) {
    if (const auto value = weighted({{subset, 1.0}}, worths)) {
      result.combinations.emplace(subset, *value);
    } else {
      result.missing.push_back(subset);
    }
  }
  Weights sum, interaction{{all_of(factors), 1.0}};
  result.whole = weighted(interaction, worths);
  for (std::size_t i = 0; i < factors; ++i) {
    const Weights as_last = last_weights(factors, i);
    Effect effect;
    if (method != Method::one_off) effect.alone = weighted(alone_weights(i), worths);
    if (method != Method::one_on) effect.last = weighted(as_last, worths);
    const Weights marginal = method == Method::one_off ? as_last : alone_weights(i);
    add(interaction, marginal, -1);
    if (method == Method::shapley) {
      const Weights shapley = shapley_weights(factors, i);
      effect.shapley = weighted(shapley, worths);
      add(sum, shapley, 1);
    } else {
      add(sum, marginal, 1);
    }
    result.effects.push_back(std::move(effect));
  }
  result.sum = weighted(sum, worths);
  result.interaction = weighted(interaction, worths);
  for (std::size_t i = 0; method == Method::shapley && i < factors; ++i) {
    for (std::size_t j = i + 1; j < factors; ++j) {
      result.pairs.push_back({i, j, weighted(pair_weights(factors, i, j), worths)});
    }
  }
  return result;
}

}  // namespace refit::ablation
