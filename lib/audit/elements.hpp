// Single elements: reading, printing, and comparing many of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "refit/audit/report.hpp"
#include "refit/tensor/tensor.hpp"

namespace refit::audit {

using Bytes = std::span<const std::byte>;

/// Bytes that one thread compares or makes at a time.
inline constexpr std::uint64_t kPieceBytes = 2u << 20;

/// Value and bits of one element: "0.5 (0x3f00)".
[[nodiscard]] std::string describe_element(DType dtype, std::uint64_t bits);

/// Steps between two elements on the scale that orders all finite values of a floating dtype, -0 just below
/// +0; nothing for integers.
[[nodiscard]] std::optional<std::uint64_t> ulp_distance(DType dtype, std::uint64_t a, std::uint64_t b);

/// Differences between the elements of one tensor. Thread-safe.
class ElementTally {
 public:
  explicit ElementTally(DType dtype) : dtype_(dtype) {}
  /// Equally long; the first byte belongs to element `first`. Whole elements only.
  void compare(Bytes expected, Bytes got, std::uint64_t first);
  /// Nothing when all were equal.
  [[nodiscard]] std::optional<Finding> finding(const TensorSpec& spec) const;

 private:
  struct Differences {
    std::uint64_t count = 0, first = 0, expected = 0, got = 0;
    std::optional<std::uint64_t> max_ulp;
  };
  template <typename Bits>
  [[nodiscard]] Differences look(Bytes expected, Bytes got, std::uint64_t first) const;

  DType dtype_;
  std::mutex mutex_;
  Differences found_;
};

/// The index of element `flat` of a tensor.
[[nodiscard]] std::vector<std::uint64_t> index_of(const Shape& shape, std::uint64_t flat);

/// "[1, 2]".
[[nodiscard]] std::string index_text(const std::vector<std::uint64_t>& index);

}  // namespace refit::audit
