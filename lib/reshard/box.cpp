// Boxes as sets of elements.
#include <algorithm>

#include "refit/reshard/layout.hpp"

namespace refit::reshard {

Box intersection(const Box& a, const Box& b) noexcept {
  const std::uint64_t row = std::max(a.row, b.row), row_end = std::min(a.row + a.rows, b.row + b.rows);
  const std::uint64_t col = std::max(a.col, b.col), col_end = std::min(a.col + a.cols, b.col + b.cols);
  if (row >= row_end || col >= col_end) return {};
  return {.row = row, .rows = row_end - row, .col = col, .cols = col_end - col};
}

}  // namespace refit::reshard
