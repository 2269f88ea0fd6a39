// A 64-bit digest of bytes that any number of threads, or a GPU, can compute in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace refit {

/// The finalizer of splitmix64: a bijection of 64-bit values with good avalanche.
[[nodiscard]] constexpr std::uint64_t mix64(std::uint64_t x) noexcept {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9ull;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

/// digest(b) of n bytes = mix64(n + 1) + sum over i of mix64(w_i + (i + 1) * 0x9E3779B97F4A7C15), modulo
/// 2^64, where w_i is the i-th little-endian 64-bit word and the last word is filled up with zero bytes. The
/// position enters every term, so swapped words change the value; the length enters once, so trailing zero
/// bytes do too. The sum makes the order of evaluation free. It finds accidents, not forgeries.
[[nodiscard]] std::uint64_t digest(std::span<const std::byte> bytes) noexcept;

/// The terms of words first_word .. of a longer buffer; `bytes` starts at that word.
/// digest(all) = mix64(n + 1) + the parts' sum, when every part but the last is a multiple of 8 bytes.
[[nodiscard]] std::uint64_t digest_part(std::span<const std::byte> bytes, std::uint64_t first_word) noexcept;

/// digest() of a text, and 16 lower-case hexadecimal digits of a value.
[[nodiscard]] std::uint64_t digest_text(std::string_view text) noexcept;
[[nodiscard]] std::string digest_hex(std::uint64_t value);

}  // namespace refit
