// How tensor parallelism divides a tensor, by what the tensor is: the one table that layouts, conversions and
// audits share. Source: vLLM's ColumnParallelLinear, QKVParallelLinear, RowParallelLinear and
// VocabParallelEmbedding; Megatron-Core's layers of the same names divide alike.
#pragma once

#include <cstdint>

#include "refit/model/inventory.hpp"

namespace refit::model {

enum class Split : std::uint8_t {
  whole,         ///< on every rank
  rows,          ///< rows / tp
  head_rows,     ///< rows by key-value heads, which may be fewer than ranks
  vocab_rows,    ///< rows of the padded vocabulary / tp
  columns,       ///< columns / tp
  halves,        ///< a slab [E, 2I, H]: of each half (gate, up) of each expert rows / tp
  slab_columns,  ///< a slab [E, H, I]: columns / tp
  unknown,       ///< nobody here knows; refuse with tp > 1
};

/// `tensor` belongs to a model of these dimensions.
[[nodiscard]] Split split_of(const Tensor& tensor, const Dimensions& dims);

/// Whether the tensor belongs to one expert or to the experts of a layer: divided by expert parallelism.
[[nodiscard]] bool is_routed_expert(Kind kind) noexcept;

/// vLLM and SGLang pad a vocabulary to a multiple of this, with rows of zeros, before it is divided
/// (VocabParallelEmbedding: DEFAULT_VOCAB_PADDING_SIZE, and weight_loader's fill_(0)).
inline constexpr std::uint64_t kEngineVocabularyMultiple = 64;
/// Rows of a vocabulary after padding to a multiple of `multiple`.
[[nodiscard]] constexpr std::uint64_t padded_rows(std::uint64_t rows, std::uint64_t multiple) noexcept {
  return (rows + multiple - 1) / multiple * multiple;
}

}  // namespace refit::model
