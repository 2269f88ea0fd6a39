// Medians, shares and the order of ranks.
#include "report/rank_figures.hpp"

#include <algorithm>
#include <numeric>

#include "report/figures.hpp"

namespace refit::report {
namespace {

/// Adds what of the rounds' ways was hidden behind work. Rounds start and arrive in order.
void add_overlap(const std::vector<ranks::RoundTimes>& rounds, RankFigures& figures) {
  if (rounds.empty()) return;
  double exchanging = 0, hidden = 0, until = 0;
  for (const ranks::RoundTimes& way : rounds) {
    const double from = std::max(until, way.start);
    until = std::max(until, way.arrived);
    const auto beside = [&](double begin, double end) {
      return std::max(0.0, std::min(end, way.arrived) - std::max(begin, from));
    };
    exchanging += std::max(0.0, way.arrived - from);
    for (const ranks::RoundTimes& work : rounds) {
      hidden += beside(work.pack, work.start) + beside(work.arrived, work.placed);
    }
  }
  figures.exchanging = exchanging;
  figures.hidden = hidden;
}

RankFigures figures_of(const ranks::RankRow& row, const ranks::RankArm& arm) {
  RankFigures figures;
  figures.row = &row;
  figures.arm = &arm;
  figures.step = median_of(arm.seconds);
  figures.unattributed = median_of(arm.unattributed);
  figures.unattributed_share = share_of(arm.unattributed, arm.seconds);
  figures.sent = ranks::of_others(arm.sent, row.rank);
  figures.received = ranks::of_others(arm.received, row.rank);
  add_overlap(arm.rounds, figures);
  for (const run::StageSamples& stage : arm.stages) {
    const auto share = share_of(stage.seconds, arm.seconds);
    if (!share || (figures.longest_share && *share <= *figures.longest_share)) continue;
    figures.longest_stage = stage.name;
    figures.longest_share = share;
  }
  return figures;
}

}  // namespace

RankArmFigures derive(const ranks::Result& result, ranks::RankArm ranks::RankRow::*arm) {
  RankArmFigures figures;
  for (const ranks::RankRow& row : result.ranks) figures.ranks.push_back(figures_of(row, row.*arm));
  for (std::size_t i = 0; i < figures.ranks.size(); ++i) {
    if (figures.ranks[i].step) figures.by_step.push_back(i);
  }
  std::stable_sort(figures.by_step.begin(), figures.by_step.end(), [&](std::size_t a, std::size_t b) {
    return *figures.ranks[a].step > *figures.ranks[b].step;
  });
  return figures;
}

}  // namespace refit::report
