// In which order the tensors travel.
#include "reshard/order.hpp"

#include <algorithm>
#include <numeric>

namespace refit::reshard {

std::vector<std::uint32_t> tensor_order(const Problem& problem) {
  const auto& tensors = problem.model.tensors;
  std::vector<std::uint64_t> held(problem.trainer.groups().size(), 0), before(tensors.size(), 0);
  std::vector<Shard> shards;
  for (std::uint32_t tensor = 0; tensor < tensors.size(); ++tensor) {
    problem.trainer.shards(tensor, shards);
    if (shards.empty()) continue;
    before[tensor] = held[shards.front().holders];
    for (const Shard& shard : shards) {
      held[shard.holders] += shard.box.elements() * size_of(tensors[tensor].spec.dtype);
    }
  }
  std::vector<std::uint32_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return before[a] < before[b]; });
  return order;
}

}  // namespace refit::reshard
