// From boxes to work: out of a trainer's tensors, into messages, into an engine's parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "ranks/share.hpp"
#include "refit/device/task.hpp"
#include "refit/reshard/reshard.hpp"
#include "run/relayout.hpp"

namespace refit::ranks {

/// Where the rows of a box lie: in a message, or in a trainer's tensor.
struct Lying {
  const std::byte* values = nullptr;  ///< of the box's first element
  std::uint64_t pitch = 0;            ///< bytes from row to row
  const std::byte* scales = nullptr;  ///< of a box that is quantized already, row-major
  std::uint64_t scale_pitch = 0;
};

/// A part of a tensor in a trainer's arena.
struct Piece {
  reshard::Box box;  ///< of the whole tensor
  Lying at;
};

/// The pieces of a box that a trainer rank has to gather, by rows.
[[nodiscard]] std::vector<Piece> pieces_of(const TrainerShare& share, std::uint32_t tensor,
                                           const reshard::Box& box, const std::byte* arena);

/// Tasks that bring a box into a message, quantized where its form says so.
void pack(const TrainerShare& share, const reshard::Transfer& transfer, const std::byte* arena,
          std::byte* values, std::byte* scales, const quant::Options& options,
          std::vector<device::Task>& tasks);

/// Rows of BF16 whose columns come from several ranks: they meet here, and are quantized when all have come.
class Meeting {
 public:
  /// Of the boxes of one round.
  void expect(const GeneratorShare& share, const reshard::Transfer& transfer);
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  struct Rows {
    const reshard::Placed* placed = nullptr;
    std::uint64_t begin = 0, end = 0;  ///< rows of the whole tensor
    std::uint64_t offset = 0;          ///< in the scratch
  };
  /// Gives every stretch of rows its place in the scratch.
  void lay_out();
  [[nodiscard]] const Rows* find(const reshard::Placed& placed) const;
  [[nodiscard]] const std::map<const reshard::Placed*, Rows>& all() const noexcept { return rows_; }

 private:
  std::map<const reshard::Placed*, Rows> rows_;
  std::uint64_t bytes_ = 0;
};

/// Where a generator rank puts what comes.
class Placer {
 public:
  /// `relayout` says where canonical scales wait; with `fused` rows go to their stored place at once.
  Placer(const GeneratorShare& share, const run::Relayout& relayout, bool fused, std::byte* destinations)
      : share_(share), relayout_(relayout), fused_(fused), destinations_(destinations) {}

  /// Tasks that place a box. Columns that would cut a block go to `meeting` at `scratch`.
  void place(std::uint32_t tensor, const reshard::Box& box, const Lying& at, const Meeting& meeting,
             std::byte* scratch, std::vector<device::Task>& tasks) const;
  /// Tasks that quantize what has met.
  void place_met(const Meeting& meeting, const std::byte* scratch, std::vector<device::Task>& tasks) const;

 private:
  void place_rows(const plan::Segment& segment, const reshard::Placed& placed, const reshard::Box& box,
                  const Lying& at, std::vector<device::Task>& tasks) const;

  const GeneratorShare& share_;
  const run::Relayout& relayout_;
  bool fused_;
  std::byte* destinations_;
};

/// Whether a box of a quantized tensor begins or ends inside a block.
[[nodiscard]] bool cuts_blocks(const reshard::Box& box) noexcept;

}  // namespace refit::ranks
