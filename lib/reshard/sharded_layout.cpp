// A rank holds the boxes of the groups that it belongs to.
#include "reshard/sharded_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "refit/base/error.hpp"

namespace refit::reshard {

std::uint64_t Holding::box_rows() const noexcept {
  return std::accumulate(boxes.begin(), boxes.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const Box& box) { return sum + box.rows; });
}

Shape held_shape(const Shape& whole, const Holding& holding) {
  if (whole.empty()) return whole;
  if (whole.size() == 1) return {holding.rows};
  if (whole.size() == 2) return {holding.rows, holding.cols};
  Shape shape = whole;
  const std::uint64_t inner = num_elements(Shape(whole.begin() + 1, whole.end() - 1));
  const Box &first = holding.boxes.front(), &last = holding.boxes.back();
  shape[0] = (last.row + last.rows - 1) / inner - first.row / inner + 1;
  if (whole.size() == 3) shape[1] = holding.rows / shape[0];
  shape.back() = holding.cols;
  return shape;
}

void ShardedLayout::for_each_holding(std::uint32_t rank,
                                     const std::function<void(const Holding&)>& visit) const {
  if (rank >= ranks()) fail_input(fmt::format("rank {} is not one of {} ranks", rank, ranks()));
  std::vector<bool> mine(groups().size());
  for (std::size_t i = 0; i < mine.size(); ++i) {
    mine[i] = std::binary_search(groups()[i].begin(), groups()[i].end(), rank);
  }
  std::vector<Shard> all;
  Holding holding;
  for (std::uint32_t tensor = 0; tensor < model().tensors.size(); ++tensor) {
    shards(tensor, all);
    holding.tensor = tensor;
    holding.boxes.clear();
    for (const Shard& shard : all) {
      if (mine[shard.holders]) holding.boxes.push_back(shard.box);
    }
    const std::uint64_t padded = padded_rows(tensor, rank);
    if (holding.boxes.empty() && padded == 0) continue;
    holding.rows = std::max(padded, holding.box_rows());
    holding.cols = holding.boxes.empty() ? model().tensors[tensor].spec.cols() : holding.boxes.front().cols;
    visit(holding);
  }
}

Local ShardedLayout::local(std::uint32_t rank) const {
  Local local;
  for_each_holding(rank, [&](const Holding& holding) {
    const TensorSpec& whole = model().tensors[holding.tensor].spec;
    std::uint64_t row = 0;
    for (const Box& box : holding.boxes) {
      local.placed.push_back({.tensor = holding.tensor,
                              .box = box,
                              .local = static_cast<std::uint32_t>(local.tensors.size()),
                              .local_row = row,
                              .local_col = 0});
      row += box.rows;
    }
    local.tensors.push_back({whole.name, held_shape(whole.shape, holding), whole.dtype});
  });
  return local;
}

}  // namespace refit::reshard
