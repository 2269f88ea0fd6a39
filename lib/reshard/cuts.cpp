// Where a tensor is cut, and into how many rows a time.
#include "reshard/cuts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "refit/base/error.hpp"
#include "refit/base/printable.hpp"

namespace refit::reshard {
namespace {

constexpr std::uint64_t kTileRows = 128;
/// A round takes a few chunks, so that it is nearly full whatever comes next.
constexpr std::uint64_t kChunksOfRound = 4;

/// Bytes of `pieces` with their alignment.
std::uint64_t aligned_bytes(const std::vector<Piece>& pieces, Form form, DType dtype) {
  std::uint64_t sum = 0;
  for (const Piece& piece : pieces) sum += box_bytes(piece.box.elements(), form, dtype).aligned();
  return sum;
}

void collect(const Cut& cut, std::uint64_t begin, std::uint64_t rows, std::vector<Piece>& pieces) {
  const Box window{cut.box.row + begin, rows, cut.box.col, cut.box.cols};
  pieces.clear();
  for (const Piece& piece : cut.pieces) {
    if (piece.box.row >= window.row + window.rows) break;
    const Box box = intersection(piece.box, window);
    if (!box.empty()) pieces.push_back({box, piece.holders});
  }
}

std::uint64_t whole_tiles(std::uint64_t rows) {
  return rows > kTileRows ? rows / kTileRows * kTileRows : rows;
}

}  // namespace

void Cutter::begin(std::uint32_t tensor) {
  tensor_ = tensor;
  at_ = 0;
  problem_.trainer.shards(tensor, held_);
  problem_.generator.shards(tensor, wanted_);
  reach_.clear();
  std::uint64_t reach = 0;
  for (const Shard& shard : held_) {
    reach = std::max(reach, shard.box.row + shard.box.rows);
    reach_.push_back(reach);
  }
}

const Cut* Cutter::next() {
  if (at_ == wanted_.size()) return nullptr;
  const Shard& wanted = wanted_[at_++];
  cut_.box = wanted.box;
  cut_.receivers = wanted.holders;
  cut_.pieces.clear();
  const auto first = std::upper_bound(reach_.begin(), reach_.end(), wanted.box.row) - reach_.begin();
  std::uint64_t elements = 0;
  for (auto i = static_cast<std::size_t>(first); i < held_.size(); ++i) {
    if (held_[i].box.row >= wanted.box.row + wanted.box.rows) break;
    const Box box = intersection(held_[i].box, wanted.box);
    if (box.empty()) continue;
    cut_.pieces.push_back({box, held_[i].holders});
    elements += box.elements();
  }
  if (elements != wanted.box.elements()) {
    fail_input(fmt::format("tensor {}: of {} elements that generator rank {} needs, trainer ranks hold {}",
                           printable(problem_.model.tensors[tensor_].spec.name), wanted.box.elements(),
                           problem_.generator.groups()[wanted.holders].front(), elements));
  }
  cut_.form = form();
  return &cut_;
}

Form Cutter::form() const {
  if (!problem_.quantized[tensor_]) return Form::as_is;
  const bool blocks_are_whole = std::all_of(cut_.pieces.begin(), cut_.pieces.end(), [](const Piece& piece) {
    return piece.box.col % quant::kBlock == 0 && piece.box.cols % quant::kBlock == 0;
  });
  return problem_.options.prequantize && blocks_are_whole ? Form::quantized : Form::quantized_late;
}

std::uint64_t take_chunk(const Problem& problem, std::uint32_t tensor, const Cut& cut, std::uint64_t begin,
                         std::vector<Piece>& pieces) {
  const TensorSpec& spec = problem.model.tensors[tensor].spec;
  const std::uint64_t limit = problem.options.round_bytes, left = cut.box.rows - begin;
  const std::uint64_t row_bytes = box_bytes(cut.box.cols, cut.form, spec.dtype).wire();
  std::uint64_t rows = std::max<std::uint64_t>(1, limit / kChunksOfRound / row_bytes);
  rows = rows < left ? whole_tiles(rows) : left;
  for (;; rows = whole_tiles((rows + 1) / 2)) {
    collect(cut, begin, rows, pieces);
    const std::uint64_t bytes = aligned_bytes(pieces, cut.form, spec.dtype);
    if (bytes <= limit) return rows;
    if (rows == 1) {
      fail_input(
          fmt::format("a round of {} bytes is too small for tensor {}: one row of what generator rank {} "
                      "needs takes {} bytes",
                      limit, printable(spec.name), problem.generator.groups()[cut.receivers].front(), bytes));
    }
  }
}

}  // namespace refit::reshard
