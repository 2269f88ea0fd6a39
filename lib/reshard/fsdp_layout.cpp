// rank = fsdp_rank + fsdp * dp_rank, so group i holds chunk i of every tensor.
#include "reshard/fsdp_layout.hpp"

#include <algorithm>
#include <utility>

#include "reshard/parallelism.hpp"
#include "reshard/stages.hpp"

namespace refit::reshard {

FsdpLayout::FsdpLayout(const model::Inventory& model, Parallelism parallelism)
    : ShardedLayout(model, std::move(parallelism)) {
  const std::string what = "trainer " + to_string(parallelism_);
  check(parallelism_, what);
  const Stages stages(model, parallelism_, Remainder::first_stages, what);  // one, of all layers
  for (std::uint32_t i = 0; i < parallelism_.fsdp; ++i) {
    std::vector<std::uint32_t>& group = groups_.emplace_back();
    for (std::uint32_t replica = 0; replica < parallelism_.dp; ++replica) {
      group.push_back(i + parallelism_.fsdp * replica);
    }
  }
}

void FsdpLayout::shards(std::uint32_t tensor, std::vector<Shard>& shards) const {
  shards.clear();
  const TensorSpec& spec = model().tensors[tensor].spec;
  const std::uint64_t rows = spec.rows(), cols = spec.cols();
  const std::uint64_t first = spec.shape.empty() ? 1 : spec.shape[0];
  if (rows == 0 || cols == 0) return;
  const std::uint64_t chunk = (first + parallelism_.fsdp - 1) / parallelism_.fsdp * (rows / first);
  std::uint64_t row = 0;
  for (std::uint32_t i = 0; row < rows; ++i) {
    const std::uint64_t mine = std::min(chunk, rows - row);
    shards.push_back({.box = {.row = row, .rows = mine, .col = 0, .cols = cols}, .holders = i});
    row += mine;
  }
}

}  // namespace refit::reshard
