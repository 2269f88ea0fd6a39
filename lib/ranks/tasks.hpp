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

/// The same of one piece of the box.
[[nodiscard]] device::Task pack_piece(const TensorSpec& tensor, const reshard::Transfer& transfer,
                                      const Piece& piece, std::byte* values, std::byte* scales,
                                      const quant::Options& options);

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

/// Where the first byte of a matrix of a parameter is; null: rows that belong there are left out.
using MatrixAddress = std::function<std::byte*(std::uint32_t destination, std::uint64_t matrix)>;
/// In an arena of a plan's parameters.
[[nodiscard]] MatrixAddress in_arena(const plan::Plan& plan, std::byte* arena);

/// Where a generator rank wants what comes.
class Placer {
 public:
  /// Rows go to their stored place at once, or with `relayout` to where they wait for its pass.
  Placer(const GeneratorShare& share, MatrixAddress address, const run::Relayout* relayout = nullptr)
      : share_(share), address_(std::move(address)), relayout_(relayout) {}

  /// Tasks that place a box. Columns that would cut a block go to `meeting` at `scratch`.
  void place(std::uint32_t tensor, const reshard::Box& box, const Lying& at, const Meeting& meeting,
             std::byte* scratch, std::vector<device::Task>& tasks) const;
  /// Tasks that quantize what has met.
  void place_met(const Meeting& meeting, const std::byte* scratch, std::vector<device::Task>& tasks) const;

 private:
  void place_rows(const plan::Segment& segment, const reshard::Placed& placed, const reshard::Box& box,
                  const Lying& at, std::vector<device::Task>& tasks) const;

  const GeneratorShare& share_;
  MatrixAddress address_;
  const run::Relayout* relayout_;
};

/// Rows of one segment that a box feeds.
struct Fed {
  const plan::Segment* segment = nullptr;
  const reshard::Placed* placed = nullptr;
  reshard::Box part;                 ///< of the whole tensor: the placed part of the box
  std::uint64_t begin = 0, end = 0;  ///< rows of the source of the rank's own plan
};
[[nodiscard]] std::vector<Fed> fed_by(const GeneratorShare& share, std::uint32_t tensor,
                                      const reshard::Box& box);

/// Whether a box of a quantized tensor begins or ends inside a block.
[[nodiscard]] bool cuts_blocks(const reshard::Box& box) noexcept;

}  // namespace refit::ranks
