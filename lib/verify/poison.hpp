// The poison check for memory that has to be fetched piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "refit/verify/verify.hpp"
#include "verify/tally.hpp"

namespace refit::verify {

/// The longest stretch of one value in bytes that are looked at one piece after the other.
class LongestRun {
 public:
  explicit LongestRun(std::byte value) : value_(value) {}
  void look_at(Bytes next);
  [[nodiscard]] std::uint64_t begin() const noexcept { return begin_; }
  [[nodiscard]] std::uint64_t length() const noexcept { return length_; }

 private:
  std::byte value_;
  std::uint64_t seen_ = 0, run_ = 0;  ///< bytes so far; those at their end that are `value`
  std::uint64_t begin_ = 0, length_ = 0;
};

/// verify::check_poison, which asks `read` for the bytes of a parameter only where its digests differ.
using ReadParameter = std::function<void(const Extent& parameter, LongestRun& run)>;
[[nodiscard]] Result check_poison(const plan::Plan& plan, std::span<const std::uint64_t> first,
                                  std::span<const std::uint64_t> second, const ReadParameter& read,
                                  std::byte poison);

}  // namespace refit::verify
