// Differences of many tensors, counted from many threads.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refit/tensor/dtype.hpp"
#include "refit/verify/verify.hpp"

namespace refit::verify {

using Bytes = std::span<const std::byte>;

class Tally {
 public:
  /// `expected` against `got`, which is byte `index` and following of tensor `tensor`. A byte whose place in
  /// `ignored` (empty, or as long) is not zero is neither compared nor counted.
  void compare(std::size_t tensor, std::uint64_t index, Bytes expected, Bytes got, std::string_view what,
               Bytes ignored = {});
  /// Counts bytes that something else compared.
  void compared(std::uint64_t bytes) noexcept { bytes_.fetch_add(bytes, std::memory_order_relaxed); }

  /// A byte, and the four around it that make an element where four bytes do.
  struct Place {
    std::byte byte{};
    std::array<std::byte, 4> element{};
  };
  /// `count` differing bytes that something else found, the first of them byte `index` of the tensor.
  void differ(std::size_t tensor, std::uint64_t index, std::uint64_t count, const Place& expected,
              const Place& got, std::string_view what);

  /// The tensors with a difference, in the order of their numbers.
  [[nodiscard]] std::vector<std::size_t> tensors() const;

  /// What people call a tensor, and whether its elements are numbers that they read.
  struct Tensor {
    std::string name;
    DType dtype{};
  };
  /// One finding for each of tensors().
  [[nodiscard]] Result result(const std::function<Tensor(std::size_t tensor)>& tensor_of) const;

 private:
  struct Difference {
    std::uint64_t first = 0, count = 0;
    Place expected, got;
    std::string what;
  };
  [[nodiscard]] static Place place_of(Bytes bytes, std::uint64_t at);

  std::atomic<std::uint64_t> bytes_ = 0;
  std::mutex mutex_;
  std::map<std::size_t, Difference> differences_;
};

/// "0x7e".
[[nodiscard]] std::string hex(std::byte value);

}  // namespace refit::verify
