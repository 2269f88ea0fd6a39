// Medians, shares and the order of ranks.
#include "report/rank_figures.hpp"

#include <algorithm>
#include <numeric>

#include "report/figures.hpp"

namespace refit::report {
namespace {

/// Bytes of all peers but the rank itself.
std::uint64_t of_others(const std::vector<std::uint64_t>& by_peer, std::uint32_t self) {
  std::uint64_t bytes = 0;
  for (std::size_t peer = 0; peer < by_peer.size(); ++peer) {
    if (peer != self) bytes += by_peer[peer];
  }
  return bytes;
}

RankFigures figures_of(const ranks::RankRow& row, const ranks::RankArm& arm) {
  RankFigures figures;
  figures.row = &row;
  figures.arm = &arm;
  figures.step = median_of(arm.seconds);
  figures.unattributed = median_of(arm.unattributed);
  figures.unattributed_share = share_of(arm.unattributed, arm.seconds);
  figures.sent = of_others(arm.sent, row.rank);
  figures.received = of_others(arm.received, row.rank);
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
