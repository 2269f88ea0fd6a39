// The bytes of a dump's tensor as some way of doing a refit makes them: the right way, or a wrong one.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "audit/parameter.hpp"
#include "audit/weights.hpp"

namespace refit::audit {

/// What the rows of a matrix are cut from.
enum class Cut : std::uint8_t {
  each_part,    ///< each part is cut, then the rank's pieces are joined
  whole,        ///< the joined matrix is cut evenly
  head_groups,  ///< q, k and v rows alternate by KV head group, as Megatron keeps them
};
/// The order of an expert's rows.
enum class RowOrder : std::uint8_t {
  canonical,
  engine,          ///< as the TRT-LLM kernels want it
  engine_twice,    ///< that of that
  shuffle_only,    ///< rows shuffled, w1 and w3 not interleaved
  interleave_only  ///< the opposite
};

struct Way {
  quant::Options quant;
  std::uint32_t tp_rank = 0, ep_rank = 0;
  Cut cut = Cut::each_part;
  std::vector<std::uint32_t> part_order{};  ///< empty: canonical
  RowOrder row_order = RowOrder::canonical;
  ScaleForm form = ScaleForm::row_major;
  bool previous = false;  ///< of the step before
  bool through_bf16 = false;
  std::optional<DType> cast_to{};  ///< BF16 or F32, of BF16, F16 or F32; else values stay as they are
  bool byte_0_replaced = false;    ///< of scales that the source has already
  bool transposed = false;
  std::uint64_t vocab_rows = 0;  ///< rows that a rank holds of a vocabulary, with padding
  /// What each matrix holds; empty: its own expert of the step that `previous` says.
  struct Expert {
    std::uint32_t number = 0;
    bool previous = false;
  };
  std::vector<Expert> experts{};
  std::uint32_t other_source = plan::kNone;  ///< instead of the one part that there is
  std::optional<std::uint8_t> constant{};    ///< every byte
};

/// Stored rows of one matrix, and where their bytes lie in the tensor.
struct Range {
  std::uint64_t matrix = 0, row = 0, rows = 0;
  std::uint64_t begin = 0, bytes = 0;
};

class Renderer {
 public:
  /// All outlive the renderer; `previous` may be null.
  Renderer(const Expectation& expectation, const Weights& current, const Weights* previous)
      : expectation_(expectation), current_(current), previous_(previous) {}

  [[nodiscard]] const Expectation& expectation() const noexcept { return expectation_; }
  [[nodiscard]] const Weights& current() const noexcept { return current_; }
  [[nodiscard]] const Weights* previous() const noexcept { return previous_; }

  [[nodiscard]] Way right_way(const Target& target) const;
  /// What this rank holds.
  [[nodiscard]] Shape shape(const Target& target, const Way& way) const;
  [[nodiscard]] static DType dtype(const Target& target, const Way& way);
  /// What engines may make of the dtype of its sources; its own where nothing.
  [[nodiscard]] DType cast_to(const Target& target) const;
  /// How many of its sources are MXFP8 already.
  enum class Carried : std::uint8_t { none, some, all };
  [[nodiscard]] Carried carried(const Target& target) const;
  /// Matrices on one rank, and the first of them on the way's rank.
  [[nodiscard]] std::uint32_t local_matrices(const Target& target) const;
  [[nodiscard]] std::uint32_t first_matrix(const Target& target, const Way& way) const;

  /// Pieces of about a megabyte that make the tensor, in order; nothing when this way is not possible for it.
  [[nodiscard]] std::vector<Range> ranges(const Target& target, const Way& way) const;
  /// The bytes of one of ranges().
  [[nodiscard]] std::vector<std::uint8_t> render(const Target& target, const Way& way,
                                                 const Range& range) const;

 private:
  struct Piece {
    std::uint32_t source = plan::kNone;  ///< kNone: zero rows
    std::uint64_t row = 0, rows = 0, col = 0, cols = 0;
  };
  struct Sizes {
    std::uint64_t rows = 0, cols = 0;
  };
  template <typename Visit>
  void for_each_row(const Target& target, const Way& way, const Range& range, const Visit& visit) const;
  [[nodiscard]] std::vector<std::uint8_t> copied(const Target& target, const Way& way,
                                                 const Range& range) const;
  struct Quantized {
    std::vector<std::uint8_t> values, scales;
  };
  [[nodiscard]] Quantized quantized(const Target& target, const Way& way, const Range& range) const;
  [[nodiscard]] std::vector<Piece> pieces(const Target& target, const Way& way, std::uint32_t matrix) const;
  [[nodiscard]] Piece cut(const Part& part, const Way& way) const;
  [[nodiscard]] std::vector<Piece> vocabulary(const Part& part, const Way& way) const;
  [[nodiscard]] std::vector<Piece> head_groups(const std::vector<Piece>& parts) const;
  [[nodiscard]] Sizes sizes(const Target& target, const Way& way) const;

  const Expectation& expectation_;
  const Weights& current_;
  const Weights* previous_;
};

}  // namespace refit::audit
