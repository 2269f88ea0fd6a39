// What MXFP8 is here: rounding modes, options, and the scalar reference. OCP MX v1.0: 32 E4M3 elements share
// one E8M0 scale; value = element * 2^(scale - 127).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace refit::quant {

/// Elements that share a scale, along the last dimension of a weight.
inline constexpr std::size_t kBlock = 32;

/// How a block maximum becomes a scale and elements become E4M3, named after the producer whose bytes it
/// gives.
enum class Rounding : std::uint8_t {
  flashinfer,  ///< FlashInfer v0.6.13, CuTe-DSL backend: scale rounded up, byte-0 blocks all +-0 (default)
  flashinfer_cuda,  ///< FlashInfer v0.6.13, CUDA backend: the same with subnormals flushed (-use_fast_math)
  torchao_rceil,    ///< torchao to_mx, RCEIL
  torchao_floor,    ///< torchao to_mx, FLOOR
  torchao_even,     ///< torchao to_mx, EVEN
  torchao_ceil,     ///< torchao to_mx, CEIL
  vllm_floor,       ///< vLLM's torch path: floor(log2(amax)), no division by 448
};
inline constexpr std::array kRoundings = {
    Rounding::flashinfer,   Rounding::flashinfer_cuda, Rounding::torchao_rceil, Rounding::torchao_floor,
    Rounding::torchao_even, Rounding::torchao_ceil,    Rounding::vllm_floor};

/// The name on command lines and in JSON: "flashinfer", "flashinfer-cuda", "torchao-rceil", ...
[[nodiscard]] std::string_view name_of(Rounding rounding) noexcept;
[[nodiscard]] std::optional<Rounding> parse_rounding(std::string_view name) noexcept;

/// What becomes of scale byte 0. NeMo-RL replaces it by 1 for the TRT-LLM kernel; with `one`, elements of
/// such a block are zeroed (sign kept; a NaN stays one), so that values never double, whatever the rounding
/// mode.
enum class ZeroScale : std::uint8_t { keep, one };

/// What callers do about infinite and NaN elements: stop and name the first, or take the producer's bytes.
/// The functions here give the producer's bytes and say whether everything was finite.
enum class NonFinite : std::uint8_t { refuse, as_producer };

struct Options {
  Rounding rounding = Rounding::flashinfer;
  ZeroScale zero_scale = ZeroScale::keep;
  NonFinite non_finite = NonFinite::refuse;
  friend bool operator==(const Options&, const Options&) = default;
};

/// Quantizes one block of BF16 bit patterns, finite or not, to the producer's bytes; returns the scale byte.
/// This is the definition that every faster path has to equal.
std::uint8_t quantize_block_reference(std::span<const std::uint16_t, kBlock> in, const Options& options,
                                      std::span<std::uint8_t, kBlock> out) noexcept;

/// Quantizes consecutive blocks: in.size() is a multiple of 32; `q` as long, `scales` in.size() / 32;
/// anything else is Error(input). The same bytes as quantize_block_reference, by the fastest path of this
/// CPU, chosen at run time. `q` and `scales` need no alignment (64 bytes are fastest). No allocation, no
/// threads: callers split rows. Returns whether every element was finite, so that a caller who refuses the
/// others need not look first.
bool quantize_blocks(std::span<const std::uint16_t> in, const Options& options, std::span<std::uint8_t> q,
                     std::span<std::uint8_t> scales);

/// One row to quantize: k elements in, k out, k / 32 scales.
struct Row {
  const std::uint16_t* in;
  std::uint8_t* q;
  std::uint8_t* scales;
};

/// quantize_blocks for rows of k elements that lie apart: faster than a call each, because several rows are
/// read in turn and large results bypass the cache. k is a multiple of 32, else Error(input). Rows do not
/// overlap.
bool quantize_rows(std::span<const Row> rows, std::size_t k, const Options& options);

/// The instruction set that quantize_blocks uses here: "AVX3", "AVX2", "NEON", "scalar", ...
[[nodiscard]] std::string_view active_target() noexcept;

/// Index of the first infinite or NaN element, if any; at memory speed.
[[nodiscard]] std::optional<std::size_t> find_non_finite(std::span<const std::uint16_t> bf16) noexcept;

/// The exact value of an E4M3 byte (NaN for 0x7F and 0xFF), of a BF16 pattern, and of element * 2^(scale -
/// 127).
[[nodiscard]] float e4m3_value(std::uint8_t bits) noexcept;
[[nodiscard]] constexpr float bf16_value(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
[[nodiscard]] double mx_value(std::uint8_t element, std::uint8_t scale) noexcept;

/// FP32 to BF16, round to nearest even (how a cast loses an FP32 router bias). NaN stays NaN.
[[nodiscard]] constexpr std::uint16_t bf16_from_float(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFF'FFFF) > 0x7F80'0000) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

}  // namespace refit::quant
