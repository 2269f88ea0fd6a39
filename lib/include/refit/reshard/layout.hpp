// Who holds which part of a model: what every rank of a trainer or a generator keeps, in terms of the boxes
// of the checkpoint's tensors.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "refit/model/inventory.hpp"
#include "refit/reshard/parallelism.hpp"

namespace refit::reshard {

/// Rows and columns of a tensor seen as a matrix (TensorSpec::rows() and cols(): a vector is a column).
struct Box {
  std::uint64_t row = 0, rows = 0, col = 0, cols = 0;
  [[nodiscard]] bool empty() const noexcept { return rows == 0 || cols == 0; }
  [[nodiscard]] std::uint64_t elements() const noexcept { return rows * cols; }
  friend bool operator==(const Box&, const Box&) = default;
};
[[nodiscard]] Box intersection(const Box& a,
                               const Box& b) noexcept;  ///< empty (all 0) where they do not meet

/// A box that every rank of a group holds, with the same bytes.
struct Shard {
  Box box;
  std::uint32_t holders = 0;  ///< index into Layout::groups()
};

/// A box of a checkpoint's tensor inside one of a rank's own tensors.
struct Placed {
  std::uint32_t tensor = 0;  ///< index into Inventory::tensors
  Box box;
  std::uint32_t local = 0;                     ///< index into Local::tensors
  std::uint64_t local_row = 0, local_col = 0;  ///< where the box begins there
};

/// What one rank holds. Boxes are in the order of Inventory::tensors, then of rows.
struct Local {
  std::vector<TensorSpec> tensors;  ///< the rank's own tensors; rows of vocabulary padding belong to no box
  std::vector<Placed> placed;
  /// Generators only: the model that this rank's engine sees, one tensor for each of `tensors`, in their
  /// order, experts numbered from 0; what plan::build takes. Rows of vocabulary padding are left out: the
  /// engine zeroes them once, and a refit does not touch them.
  model::Inventory model;
};

class Layout {
 public:
  virtual ~Layout() = default;
  [[nodiscard]] const Parallelism& parallelism() const noexcept { return parallelism_; }
  [[nodiscard]] std::uint32_t ranks() const noexcept { return parallelism_.ranks(); }
  /// Sets of ranks, each sorted, none twice.
  [[nodiscard]] const std::vector<std::vector<std::uint32_t>>& groups() const noexcept { return groups_; }
  /// The boxes of one tensor, none empty, none overlapping another, together all of it; in the order of rows,
  /// then of columns. Replaces what `shards` holds, so that a caller's loop allocates nothing.
  virtual void shards(std::uint32_t tensor, std::vector<Shard>& shards) const = 0;
  [[nodiscard]] virtual Local local(std::uint32_t rank) const = 0;
  /// What somebody who reads the plan has to know: uneven stages, replicated key-value heads, padding.
  [[nodiscard]] const std::vector<std::string>& notes() const noexcept { return notes_; }

 protected:
  Parallelism parallelism_;
  std::vector<std::vector<std::uint32_t>> groups_;
  std::vector<std::string> notes_;
};

/// Whose tensors a trainer keeps.
enum class TrainerForm : std::uint8_t {
  megatron,  ///< linear_qkv with query, key and value rows interleaved by key-value head; gate above up in
             ///< linear_fc1
  hf,        ///< the checkpoint's own tensors (FSDP and DTensor)
};

/// Megatron-Core. Vocabulary rows are padded to a multiple of 128 * tp and divided
/// (make_vocab_size_divisible_by). Layers that do not divide by pp make earlier stages one larger (a note
/// says so) unless pp_layers says otherwise. With tied embeddings the last stage holds the embedding too.
/// Kinds of tensors: as refit/model/split.hpp says. fsdp > 1: each tensor's rows as torch.chunk divides
/// dimension 0, hf form alone. Error(input) naming tensor and numbers: heads, key-value heads, rows or
/// columns that do not divide by tp (Megatron does not replicate key-value heads), experts by ep, expert
/// width by etp, layers against pp_layers, more stages than layers, tensors whose split is not known with tp
/// > 1. `model` must outlive the layout.
[[nodiscard]] std::unique_ptr<Layout> trainer_layout(const model::Inventory& model, Parallelism parallelism,
                                                     TrainerForm form);

/// vLLM and SGLang. Vocabulary rows are padded to a multiple of 64 and divided. Key-value heads
/// fewer than tp are replicated (a note says so). Quantized weights are never cut through a block:
/// `quantized`, one flag a tensor, refuses a column range that is no multiple of 32. Errors otherwise as
/// above. `model` must outlive the layout.
[[nodiscard]] std::unique_ptr<Layout> generator_layout(const model::Inventory& model, Parallelism parallelism,
                                                       const std::vector<bool>& quantized);

}  // namespace refit::reshard
