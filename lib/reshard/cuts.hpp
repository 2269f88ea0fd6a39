// Where a tensor is cut: for each shard of the generator the boxes of it that trainer ranks hold.
#pragma once

#include <cstdint>
#include <vector>

#include "reshard/problem.hpp"

namespace refit::reshard {

/// Rows of a generator's shard that one group of trainer ranks holds.
struct Piece {
  Box box;                    ///< of the whole tensor
  std::uint32_t holders = 0;  ///< index into the trainer's groups
};

/// A shard of the generator and all that it is put together from.
struct Cut {
  Box box;
  std::uint32_t receivers = 0;  ///< index into the generator's groups
  Form form = Form::as_is;      ///< of all pieces
  std::vector<Piece> pieces;    ///< in the order of rows, then of columns
};

/// Walks a tensor's cuts. Keeps its memory from one tensor to the next.
class Cutter {
 public:
  explicit Cutter(const Problem& problem) : problem_(problem) {}

  /// Begins a tensor; next() then goes through its cuts and returns nullptr behind the last.
  void begin(std::uint32_t tensor);
  /// Error(input) naming the tensor when no trainer rank holds a part of the shard.
  [[nodiscard]] const Cut* next();

 private:
  [[nodiscard]] Form form() const;
  const Problem& problem_;
  std::uint32_t tensor_ = 0;
  std::size_t at_ = 0;
  std::vector<Shard> held_, wanted_;
  std::vector<std::uint64_t> reach_;  ///< the row behind the lowest that held_[0 .. i] reach
  Cut cut_;
};

/// The rows of `cut` from row `begin` of it on that travel together, at least one: about a quarter of
/// round_bytes, in multiples of 128 rows where there are that many (tiles of scales are 128 rows high).
/// Puts the pieces of these rows in place of what `pieces` holds, and returns how many rows they are.
/// Error(input) naming the tensor when one row is more than round_bytes.
std::uint64_t take_chunk(const Problem& problem, std::uint32_t tensor, const Cut& cut, std::uint64_t begin,
                         std::vector<Piece>& pieces);

}  // namespace refit::reshard
