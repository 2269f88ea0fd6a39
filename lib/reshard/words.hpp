// The digest of a stream of words: refit/base/digest.hpp without the buffer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "refit/base/digest.hpp"

namespace refit::reshard {

class WordDigest {
 public:
  template <typename... Words>
  void add(Words... words) noexcept {
    const std::array<std::uint64_t, sizeof...(Words)> these{static_cast<std::uint64_t>(words)...};
    sum_ += digest_part(std::as_bytes(std::span(these)), count_);
    count_ += these.size();
  }
  [[nodiscard]] std::uint64_t value() const noexcept { return mix64(count_ * 8 + 1) + sum_; }

 private:
  std::uint64_t sum_ = 0, count_ = 0;
};

}  // namespace refit::reshard
