// Least squares over logarithms, with priors.
#include "project/fit.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "project/least_squares.hpp"
#include "project/phases.hpp"

namespace refit::project {
namespace {

// Standard deviations of logarithms of single figures.
constexpr double kOfTransfer = 0.06, kOfRest = 0.15;

std::array<Fitted*, 3> shares_of(Stack& stack) {
  return {&stack.message_share, &stack.offload_share, &stack.pageable_share};
}

/// Every figure that has a prior, in one order.
std::vector<Fitted*> movable(Costs& costs) {
  std::vector<Fitted*> all;
  for (Fitted& cost : costs.stack.costs) all.push_back(&cost);
  for (Fitted* share : shares_of(costs.stack)) all.push_back(share);
  for (auto& [name, platform] : costs.platforms) all.push_back(&platform.host_cost);
  std::erase_if(all, [](const Fitted* one) { return !one->prior; });
  return all;
}

Costs with(const Costs& priors, const std::vector<double>& x) {
  Costs costs = priors;
  const std::vector<Fitted*> all = movable(costs);
  for (std::size_t i = 0; i < all.size(); ++i) all[i]->figure.value = std::exp(x[i]);
  // A share is one.
  for (Fitted* share : shares_of(costs.stack)) {
    share->figure.value = std::min(1.0, share->figure.value);
  }
  return costs;
}

/// `offsets`: of the table's transfers, and of what prepare_for_generation takes besides.
void add_residuals(const CountedTable& table, const Costs& costs, const double* offsets,
                   std::vector<double>& residuals) {
  residuals.push_back(offsets[0] / table.table->offset_spread);
  residuals.push_back(offsets[1] / table.table->offset_spread);
  for (const bool control : {true, false}) {
    const Projected here = projected(table, control, costs);
    const std::optional<double> transfer = published(*table.table, kTransfer, control);
    const std::optional<double> prepare = published(*table.table, kPrepare, control);
    const double projected_rest = here.prepare_s - here.transfer_s;
    if (transfer) {
      residuals.push_back((std::log(here.transfer_s / *transfer) + offsets[0]) / kOfTransfer);
    }
    if (transfer && prepare) {
      residuals.push_back((std::log(projected_rest / (*prepare - *transfer)) + offsets[1]) / kOfRest);
    } else if (prepare) {
      const double whole = here.transfer_s * std::exp(offsets[0]) + projected_rest * std::exp(offsets[1]);
      residuals.push_back(std::log(whole / *prepare) / kOfTransfer);
    }
  }
}

}  // namespace

std::optional<double> published(const Table& table, std::string_view phase, bool control) {
  double sum = 0;
  for (const scenario::Scenario& scenario : table.scenarios) {
    const std::optional<double> seconds = published_seconds(scenario, phase, control);
    if (!seconds) return std::nullopt;
    sum += *seconds;
  }
  return sum / double(table.scenarios.size());
}

Projected projected(const CountedTable& table, bool control, const Costs& costs) {
  const Platform& platform = costs.platforms.at(table.table->platform);
  Projected mean;
  for (const Projector& projector : table.projectors) {
    const ProjectedArm arm = projector.arm(control, platform, costs.stack);
    mean.transfer_s += arm.transfer.s;
    mean.prepare_s += arm.prepare.s;
  }
  mean.transfer_s /= double(table.projectors.size());
  mean.prepare_s /= double(table.projectors.size());
  return mean;
}

Costs fit(const std::vector<const CountedTable*>& tables, const Costs& priors) {
  Costs begin = priors;
  std::vector<double> x, prior, spread;
  for (const Fitted* one : movable(begin)) {
    x.push_back(std::log(*one->prior));
    spread.push_back(one->spread);
  }
  prior = x;
  x.resize(prior.size() + 2 * tables.size(), 0);
  const auto residuals = [&](const std::vector<double>& at) {
    const Costs costs = with(priors, at);
    std::vector<double> all;
    for (std::size_t i = 0; i < prior.size(); ++i) all.push_back((at[i] - prior[i]) / spread[i]);
    for (std::size_t t = 0; t < tables.size(); ++t) {
      add_residuals(*tables[t], costs, at.data() + prior.size() + 2 * t, all);
    }
    return all;
  };
  return with(priors, least_squares(residuals, x));
}

}  // namespace refit::project
