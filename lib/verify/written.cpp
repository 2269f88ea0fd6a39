// One bit for each byte of a region: written, or not yet.
#include "verify/written.hpp"

#include <algorithm>
#include <bit>

namespace refit::verify {
namespace {

void note(Written::Found& found, std::uint64_t first, std::uint64_t count) noexcept {
  found.first = found.count == 0 ? first : std::min(found.first, first);
  found.count += count;
}

/// The lowest `count` of 64 bits.
std::uint64_t low_bits(std::uint64_t count) noexcept {
  return count >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
}

}  // namespace

void Written::mark(std::uint64_t begin, std::uint64_t bytes) noexcept {
  const std::uint64_t end = std::min(begin + bytes, bytes_);
  if (begin + bytes > end) {
    const std::uint64_t first = std::max(begin, bytes_);
    note(outside_, first, begin + bytes - first);
  }
  while (begin < end) {
    const std::uint64_t bit = begin % 64;
    const std::uint64_t count = std::min(64 - bit, end - begin);
    const std::uint64_t mask = low_bits(count) << bit;
    std::uint64_t& word = words_[begin / 64];
    if (const std::uint64_t twice = word & mask; twice != 0) {
      note(again_, begin - bit + static_cast<std::uint64_t>(std::countr_zero(twice)),
           static_cast<std::uint64_t>(std::popcount(twice)));
    }
    word |= mask;
    begin += count;
  }
}

Written::Found Written::missing() const noexcept {
  Found missing;
  for (std::uint64_t i = 0; i < words_.size(); ++i) {
    const std::uint64_t clear = ~words_[i] & low_bits(bytes_ - i * 64);
    if (clear == 0) continue;
    note(missing, i * 64 + static_cast<std::uint64_t>(std::countr_zero(clear)),
         static_cast<std::uint64_t>(std::popcount(clear)));
  }
  return missing;
}

}  // namespace refit::verify
