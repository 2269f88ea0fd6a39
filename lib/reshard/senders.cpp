// Which of the ranks that hold a box sends it.
#include "reshard/senders.hpp"

#include <algorithm>
#include <functional>

namespace refit::reshard {
namespace {

/// Up to this many ranks are looked through faster than a heap is kept.
constexpr std::size_t kFew = 32;

}  // namespace

Senders::Senders(const Problem& problem)
    : groups_(problem.trainer.groups()),
      colocated_(problem.options.colocated),
      gpus_per_node_(problem.options.gpus_per_node),
      loads_(problem.trainer.ranks(), 0) {}

void Senders::count_forced(std::uint32_t holders, const std::vector<std::uint32_t>& receivers,
                           std::uint64_t bytes) {
  for (const std::uint32_t to : receivers) {
    const Ranks ranks = candidates(holders, to);
    if (ranks.size() == 1 && !is_local(ranks.front(), to)) loads_[ranks.front()] += bytes;
  }
}

Senders::Sender Senders::choose(std::uint32_t holders, std::uint32_t to, std::uint64_t bytes) {
  const Ranks ranks = candidates(holders, to);
  if (ranks.size() == 1) return {ranks.front(), false};
  const std::uint32_t rank = least_loaded(ranks);
  loads_[rank] += bytes;
  return {rank, true};
}

Senders::Ranks Senders::candidates(std::uint32_t holders, std::uint32_t to) const {
  const std::vector<std::uint32_t>& group = groups_[holders];
  if (group.size() == 1 || !colocated_) return group;
  const auto self = std::lower_bound(group.begin(), group.end(), to);
  if (self != group.end() && *self == to) return {self, 1};
  if (gpus_per_node_ == 0) return group;
  const std::uint64_t host = std::uint64_t{to} / gpus_per_node_ * gpus_per_node_;
  const auto begin = std::lower_bound(group.begin(), self, host);
  const auto end = std::lower_bound(self, group.end(), host + gpus_per_node_);
  return begin == end ? Ranks(group) : Ranks(begin, end);
}

std::uint32_t Senders::least_loaded(Ranks ranks) {
  if (ranks.size() > kFew) return least_of_many(ranks);
  return *std::min_element(ranks.begin(), ranks.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(loads_[a], a) < std::pair(loads_[b], b);
  });
}

std::uint32_t Senders::least_of_many(Ranks ranks) {
  std::vector<Loaded>& heap = heaps_[{ranks.data(), ranks.size()}];
  if (heap.empty()) {
    for (const std::uint32_t rank : ranks) heap.emplace_back(loads_[rank], rank);
    std::make_heap(heap.begin(), heap.end(), std::greater<>());
  }
  // Loads only grow, so an entry is at most too low: it is put right when it reaches the top.
  while (heap.front().first != loads_[heap.front().second]) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.back().first = loads_[heap.back().second];
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  }
  return heap.front().second;
}

}  // namespace refit::reshard
