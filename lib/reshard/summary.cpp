// What a plan of many ranks costs.
#include "refit/reshard/summary.hpp"

#include <algorithm>
#include <map>

namespace refit::reshard {
namespace {

Spread spread_of(const std::vector<RankTotals>& ranks) {
  std::vector<std::uint64_t> bytes;
  for (const RankTotals& rank : ranks) bytes.push_back(rank.remote_bytes);
  std::sort(bytes.begin(), bytes.end());
  return {bytes.front(), bytes[(bytes.size() - 1) / 2], bytes.back()};
}

std::optional<double> imbalance_of(const std::vector<RankTotals>& trainers) {
  double sum = 0, most = 0;
  for (const RankTotals& rank : trainers) {
    const auto bytes = static_cast<double>(rank.remote_bytes);
    sum += bytes;
    most = std::max(most, bytes);
  }
  if (sum == 0) return std::nullopt;
  return most * static_cast<double>(trainers.size()) / sum;
}

/// The largest value over processes of what `of` says of the totals of a process's two roles.
template <typename Of>
std::uint64_t most_of_a_process(const Reshard& plan, Of&& of) {
  const RankTotals none;
  std::uint64_t most = 0;
  for (std::size_t rank = 0; rank < std::max(plan.trainers.size(), plan.generators.size()); ++rank) {
    const RankTotals& trainer = rank < plan.trainers.size() ? plan.trainers[rank] : none;
    const RankTotals& generator = rank < plan.generators.size() ? plan.generators[rank] : none;
    most = std::max(most, plan.options.colocated ? of(trainer, generator)
                                                 : std::max(of(trainer, none), of(none, generator)));
  }
  return most;
}

Floor floor_of(std::uint64_t bytes, std::optional<double> bandwidth) {
  Floor floor{bytes, std::nullopt};
  if (bandwidth) floor.seconds = static_cast<double>(bytes) / *bandwidth;
  return floor;
}

/// Remote bytes over one kind of link, and the most that one rank sends or receives over it.
struct LinkTotals {
  std::uint64_t sum = 0, busiest = 0;
};

LinkTotals totals_of(const Reshard& plan, Link link) {
  LinkTotals totals;
  std::vector<std::uint64_t> received(plan.generators.size(), 0);
  for (std::uint32_t from = 0; from < plan.trainers.size(); ++from) {
    std::uint64_t sent = 0;
    for (std::uint32_t to = 0; to < plan.generators.size(); ++to) {
      const std::uint64_t bytes = plan.links[std::size_t{from} * plan.generators.size() + to];
      if (bytes == 0 || link_between(from, to, plan.options) != link) continue;
      sent += bytes;
      received[to] += bytes;
    }
    totals.sum += sent;
    totals.busiest = std::max(totals.busiest, sent);
  }
  totals.busiest = std::max(totals.busiest, *std::max_element(received.begin(), received.end()));
  return totals;
}

std::vector<Peer> peers(const Reshard& plan, const model::Inventory& model,
                        const std::vector<Transfer>& transfers, std::uint32_t Transfer::*other) {
  std::map<std::uint32_t, Peer> by_rank;
  std::map<std::uint32_t, std::uint32_t> last_rounds;
  for (const Transfer& transfer : transfers) {
    Peer& peer = by_rank[transfer.*other];
    peer.rank = transfer.*other;
    peer.link = link_between(transfer.from, transfer.to, plan.options);
    peer.bytes += wire_bytes(transfer, model);
    ++peer.transfers;
    const auto [last, is_first] = last_rounds.emplace(peer.rank, transfer.round);
    if (is_first || last->second != transfer.round) ++peer.rounds;
    last->second = transfer.round;
  }
  std::vector<Peer> peers;
  for (const auto& [rank, peer] : by_rank) peers.push_back(peer);
  return peers;
}

}  // namespace

Link link_between(std::uint32_t trainer_rank, std::uint32_t generator_rank, const Options& options) noexcept {
  if (!options.colocated) return Link::network;
  if (trainer_rank == generator_rank) return Link::process;
  if (options.gpus_per_node == 0) return Link::unknown;
  return trainer_rank / options.gpus_per_node == generator_rank / options.gpus_per_node ? Link::host
                                                                                        : Link::network;
}

Summary summarize(const Reshard& plan, const Bandwidths& bandwidths) {
  Summary summary;
  for (const RankTotals& rank : plan.trainers) {
    summary.process_bytes += rank.local_bytes;
    summary.remote_bytes += rank.remote_bytes;
  }
  summary.sent = spread_of(plan.trainers);
  summary.received = spread_of(plan.generators);
  summary.imbalance = imbalance_of(plan.trainers);
  summary.peak_extra_bytes =
      most_of_a_process(plan, [](const RankTotals& trainer, const RankTotals& generator) {
        return 2 * (trainer.largest_round + generator.largest_round);
      });
  const auto touched = [](const RankTotals& trainer, const RankTotals& generator) {
    return trainer.remote_bytes + trainer.local_bytes + generator.remote_bytes + generator.local_bytes;
  };
  summary.memory = floor_of(most_of_a_process(plan, touched), bandwidths.copy);
  if (plan.options.colocated && plan.options.gpus_per_node == 0) return summary;
  const LinkTotals host = totals_of(plan, Link::host), network = totals_of(plan, Link::network);
  summary.host_bytes = host.sum;
  summary.network_bytes = network.sum;
  summary.host = floor_of(host.busiest, bandwidths.host);
  summary.network = floor_of(network.busiest, bandwidths.network);
  return summary;
}

std::vector<Peer> receivers(const Reshard& plan, const model::Inventory& model) {
  return peers(plan, model, plan.sends, &Transfer::to);
}

std::vector<Peer> senders(const Reshard& plan, const model::Inventory& model) {
  return peers(plan, model, plan.receives, &Transfer::from);
}

}  // namespace refit::reshard
