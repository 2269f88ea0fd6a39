// The stretches of an arena around its tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "refit/verify/verify.hpp"

namespace refit::verify {

/// A stretch of an arena that belongs to no tensor.
struct Guard {
  const Extent* before = nullptr;  ///< the tensor that it follows, null at the arena's beginning
  const Extent* after = nullptr;   ///< the tensor that follows it, null at the arena's end
  std::uint64_t begin = 0, end = 0;
};
/// All of them, empty ones too, pointing into `extents`. Error(input) unless the tensors lie side by side in
/// the arena.
[[nodiscard]] std::vector<Guard> guards_of(std::span<const Extent> extents, std::uint64_t arena_bytes);

/// Every byte of the pattern depends on its place, so that neither moved nor constant bytes look right.
[[nodiscard]] std::byte guard_byte(std::uint64_t position) noexcept;

/// `count` bytes of a guard differ; the first is byte `at` of the arena, which holds `got`.
[[nodiscard]] Finding damage_of(const Guard& guard, std::uint64_t at, std::byte got, std::uint64_t count);

}  // namespace refit::verify
