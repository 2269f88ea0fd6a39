// The digest at memory speed on one core: independent accumulators keep both multipliers of each word in
// flight.
#include "refit/base/digest.hpp"

#include <fmt/format.h>

#include <cstring>

namespace refit {
namespace {

constexpr std::uint64_t position_step = 0x9E3779B97F4A7C15ull;

std::uint64_t load_word(const std::byte* from) noexcept {
  std::uint64_t word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

}  // namespace

std::uint64_t digest_part(std::span<const std::byte> bytes, std::uint64_t first_word) noexcept {
  const std::byte* at = bytes.data();
  const std::size_t words = bytes.size() / 8;
  std::uint64_t position = (first_word + 1) * position_step;
  std::uint64_t sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
  std::size_t i = 0;
  for (; i + 4 <= words; i += 4, at += 32, position += 4 * position_step) {
    // The arithmetic fills the reorder window, so loads of cold memory would start late: ask ahead.
    __builtin_prefetch(at + 2048);
    sum0 += mix64(load_word(at) + position);
    sum1 += mix64(load_word(at + 8) + (position + position_step));
    sum2 += mix64(load_word(at + 16) + (position + 2 * position_step));
    sum3 += mix64(load_word(at + 24) + (position + 3 * position_step));
  }
  for (; i < words; ++i, at += 8, position += position_step) sum0 += mix64(load_word(at) + position);
  if (const std::size_t tail = bytes.size() % 8; tail != 0) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, tail);
    sum0 += mix64(word + position);
  }
  return sum0 + sum1 + sum2 + sum3;
}

std::uint64_t digest(std::span<const std::byte> bytes) noexcept {
  return mix64(bytes.size() + 1) + digest_part(bytes, 0);
}

std::uint64_t digest_text(std::string_view text) noexcept {
  return digest(std::as_bytes(std::span(text.data(), text.size())));
}

std::string digest_hex(std::uint64_t value) {
  return fmt::format("{:016x}", value);
}

}  // namespace refit
