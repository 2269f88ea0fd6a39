// Which rows and columns of a tensor one tensor-parallel rank holds, as vLLM splits them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convert/source.hpp"

namespace refit::convert {

/// Of each of `matrices` stacked matrices: ranges of its rows, one below the other, and a range of columns.
struct Slice {
  struct Rows {
    std::uint64_t begin = 0, count = 0;
  };
  std::uint64_t matrices = 1, source_rows = 0;  ///< source_rows: of one matrix
  std::vector<Rows> rows;
  std::uint64_t zero_rows = 0;  ///< below these: what a rank holds beyond the vocabulary
  std::uint64_t col = 0, cols = 0;
  [[nodiscard]] std::uint64_t matrix_rows() const noexcept;  ///< zeros included
};

/// All of it; a tensor of three dimensions is a stack of matrices.
[[nodiscard]] Slice whole(const TensorSpec& spec);

/// Cuts tensors for one rank.
class Slicer {
 public:
  /// Throws Error(input) for a rank that does not exist, for a split without a model, and for heads that do
  /// not divide (naming both numbers).
  Slicer(const Source& source, const Options& options);
  /// Throws Error(input) naming tensor and numbers when it cannot be cut evenly, when a cut through K would
  /// not be at a multiple of 32 although the tensor is or becomes MXFP8, and for a tensor whose split is not
  /// known.
  [[nodiscard]] Slice slice(const SourceTensor& tensor, bool quantized) const;
  /// What the report has to say of the split ("kv heads are replicated"), if anything.
  [[nodiscard]] const std::vector<std::string>& notes() const noexcept { return notes_; }

 private:
  void note_vocabulary();
  [[nodiscard]] std::string refusal(const SourceTensor& tensor) const;
  void keep_part(const SourceTensor& tensor, Slice::Rows& rows) const;
  void keep_vocabulary(const SourceTensor& tensor, Slice& slice) const;
  void keep_key_value_head(const SourceTensor& tensor, Slice::Rows& rows) const;
  void keep_columns(const SourceTensor& tensor, bool quantized, Slice& slice) const;
  void cut(const SourceTensor& tensor, bool quantized, Slice& slice) const;

  const Source* source_;
  std::uint64_t size_, rank_, kv_heads_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace refit::convert
