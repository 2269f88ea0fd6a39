// Ranks along a picture: one a cell, or of very many several.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "page/result.hpp"

namespace refit::page {

class Cells {
 public:
  explicit Cells(const Ranks& ranks) : ranks_(&ranks) {
    constexpr std::size_t kMost = 512;
    const std::size_t n = std::max<std::size_t>(ranks.rows.size(), 1);
    size_ = (n + kMost - 1) / kMost;
    count_ = (n + size_ - 1) / size_;
  }
  [[nodiscard]] std::size_t count() const { return count_; }
  /// Indices of ranks.
  [[nodiscard]] std::size_t first(std::size_t cell) const { return cell * size_; }
  [[nodiscard]] std::size_t end(std::size_t cell) const {
    return std::min(first(cell) + size_, ranks_->rows.size());
  }
  /// One number in so many cells that it fits on paper; `width` of a cell in percent.
  [[nodiscard]] static std::size_t numbered(double width) {
    std::size_t every = 1;
    while (static_cast<double>(every) * width < 100 * 34.0 / 540) every *= 2;
    return every;
  }
  /// "rank 7", or "most of ranks 4 to 7".
  [[nodiscard]] std::string name(std::size_t cell) const {
    const auto number = [&](std::size_t i) { return std::to_string(ranks_->rows[i].number); };
    return end(cell) - first(cell) == 1
               ? "rank " + number(first(cell))
               : "most of ranks " + number(first(cell)) + " to " + number(end(cell) - 1);
  }

 private:
  const Ranks* ranks_;
  std::size_t size_, count_;
};

}  // namespace refit::page
