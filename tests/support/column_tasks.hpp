// Tasks whose rows are parts of wider rows, on either side: column pieces of a whole task.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "refit/device/task.hpp"

namespace refit::test {

/// A task over rows of `cols`, without addresses, and how many bytes an element has on either side.
struct WholeTask {
  device::Task task;
  std::uint64_t from_size = 1, values_size = 1;
};

/// The same work in pieces that begin and end anywhere allowed. Addresses are of the whole: each piece reads
/// from its column on, and says where it lands.
inline std::vector<device::Task> column_pieces(const WholeTask& whole, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::uint64_t step = whole.task.op == device::Op::quantize ? quant::kBlock : 1;
  const std::uint64_t cols = whole.task.cols;
  std::vector<device::Task> pieces;
  for (std::uint64_t begin = 0; begin < cols;) {
    const std::uint64_t steps = (cols - begin) / step;
    const std::uint64_t count = random() % 3 == 0 ? cols - begin : (1 + random() % steps) * step;
    device::Task piece = whole.task;
    if (piece.from != nullptr) piece.from += begin * whole.from_size;
    piece.cols = count;
    piece.to_col = begin;
    piece.to_cols = cols;
    pieces.push_back(piece);
    begin += count;
  }
  std::shuffle(pieces.begin(), pieces.end(), random);
  return pieces;
}

/// Every operation, mapped and not, both scale layouts, widths around the edges of blocks, words and tiles.
inline std::vector<WholeTask> whole_tasks(const std::vector<std::uint32_t>& row_map,
                                          const std::string& tensor) {
  std::vector<WholeTask> wholes;
  const auto add = [&](device::Op op, std::uint64_t cols, std::uint64_t from_size, std::uint64_t values_size,
                       plan::ScaleLayout layout) {
    for (const bool mapped : {false, true}) {
      WholeTask whole{.task = {}, .from_size = from_size, .values_size = values_size};
      whole.task.op = op;
      whole.task.rows = row_map.size();
      whole.task.cols = cols;
      whole.task.row_bytes = cols * from_size;
      whole.task.scale_layout = layout;
      whole.task.tensor = &tensor;
      if (mapped) whole.task.row_map = &row_map;
      wholes.push_back(whole);
    }
  };
  for (const std::uint64_t cols : {1, 16, 37, 512, 1040}) {
    add(device::Op::copy, cols, 1, 1, plan::ScaleLayout::none);
    add(device::Op::round_bf16, cols, 4, 4, plan::ScaleLayout::none);
  }
  for (const plan::ScaleLayout layout : {plan::ScaleLayout::row_major, plan::ScaleLayout::tiled_128x4}) {
    for (const std::uint64_t cols : {32, 96, 128, 736, 2048}) add(device::Op::quantize, cols, 2, 1, layout);
    for (const std::uint64_t cols : {1, 3, 4, 23, 64, 130}) {
      add(device::Op::scales, cols, 1, 1, layout);
      add(device::Op::zero, cols, 1, 1, layout);
    }
  }
  return wholes;
}

}  // namespace refit::test
