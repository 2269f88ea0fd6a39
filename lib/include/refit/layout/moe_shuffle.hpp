// The row order of FlashInfer's TRT-LLM MoE kernels (epilogue tile 128), for stacked expert weights.
//
// Checkpoint order of w13 is [gate rows 0..I-1, up rows I..2I-1] for gated experts, up rows alone otherwise.
// The kernel wants, for gated experts, halves swapped (up first), interleaved (up, gate, up, ...) and then
// rows shuffled inside blocks of 32: out[n] = in[32*(n/32) + 4*(n%8) + (n%32)/8].
//
// Source: FlashInfer v0.6.13 flashinfer/utils.py L1002-1087 and fused_moe/core.py L486-511,
// NeMo-RL nemo_rl/models/generation/vllm/quantization/fp8.py L1055-1230.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace refit::layout {

/// A permutation as source rows: out[n] = in[rows[n]].
using SourceRows = std::vector<std::uint32_t>;

/// The 32-row shuffle. Throws Error(input) unless rows is a multiple of 32.
[[nodiscard]] SourceRows shuffle_rows(std::uint32_t rows);
/// gate[o] = o/2 + (o%2)*(rows/2), over rows in [w3; w1] order. Throws Error(input) when rows is odd.
[[nodiscard]] SourceRows gated_interleave_rows(std::uint32_t rows);
/// shuffle after interleave after the swap of halves: source rows in checkpoint [w1; w3] order.
/// Throws Error(input) unless rows is a multiple of 128.
[[nodiscard]] SourceRows trtllm_w13_rows(std::uint32_t rows, bool gated);
/// The w2 order: the shuffle alone. Throws Error(input) unless rows is a multiple of 128.
[[nodiscard]] SourceRows trtllm_w2_rows(std::uint32_t rows);
/// destination[old row] = new row. Throws Error(input) unless source_rows is a permutation.
[[nodiscard]] std::vector<std::uint32_t> inverse(std::span<const std::uint32_t> source_rows);

/// What one call rearranges: `experts` matrices of rows x row_bytes, stacked.
struct ExpertRows {
  std::uint64_t experts = 0;
  std::uint64_t rows = 0;
  std::uint64_t row_bytes = 0;
};

/// out[e][n] = in[e][source_rows[n]] for every expert in one pass. Throws Error(input), before a byte is
/// written, when a size or an entry of the map does not fit, or when `in` and `out` overlap. A large `out` is
/// written past the cache, and is visible to other threads and processes after any later release store.
void gather_rows_batched(std::span<const std::uint8_t> in, const ExpertRows& what,
                         std::span<const std::uint32_t> source_rows, std::span<std::uint8_t> out);

/// The oracle: one expert's weight and scales through upstream's separate steps (swap halves, interleave,
/// shuffle, pad and tile scales), each a plain copy into a new buffer. Scales are row-major [rows,
/// scale_cols] in, 128x4 out.
struct ShuffledExpert {
  std::vector<std::uint8_t> weight;
  std::vector<std::uint8_t> scales;
};
[[nodiscard]] ShuffledExpert shuffle_w13_expert_reference(std::span<const std::uint8_t> weight,
                                                          std::span<const std::uint8_t> scales,
                                                          std::uint64_t rows, std::uint64_t row_bytes,
                                                          std::uint64_t scale_cols, bool gated);
[[nodiscard]] ShuffledExpert shuffle_w2_expert_reference(std::span<const std::uint8_t> weight,
                                                         std::span<const std::uint8_t> scales,
                                                         std::uint64_t rows, std::uint64_t row_bytes,
                                                         std::uint64_t scale_cols);

}  // namespace refit::layout
