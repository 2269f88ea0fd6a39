// Verification where the bytes are. The host's checker calls refit/verify; a GPU's runs separate, plain
// kernels that tests tie to the scalar reference. What a result says is the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "refit/plan/plan.hpp"
#include "refit/plan/wire.hpp"
#include "refit/verify/verify.hpp"

namespace refit::device {

/// Arguments and results as in refit/verify/verify.hpp; spans are addresses of the backend. Each call returns
/// when its result is known.
class Checker {
 public:
  virtual ~Checker() = default;
  virtual void poison(std::span<const verify::Extent> extents, std::span<std::byte> arena,
                      std::byte value) = 0;
  virtual void fill_guards(std::span<const verify::Extent> extents, std::span<std::byte> arena) = 0;
  [[nodiscard]] virtual verify::Result check_guards(std::span<const verify::Extent> extents,
                                                    std::span<const std::byte> arena) = 0;
  /// refit::digest of each range.
  [[nodiscard]] virtual std::vector<std::uint64_t> digests(
      std::span<const std::span<const std::byte>> ranges) = 0;
  [[nodiscard]] virtual verify::Result check_packed(const plan::Plan& plan, const plan::Wire& wire,
                                                    std::size_t bucket, std::span<const std::byte> packed,
                                                    std::span<const std::byte> sources,
                                                    std::vector<bool>* wrong_entries) = 0;
  [[nodiscard]] virtual verify::InPlace check_in_place(const plan::Plan& plan,
                                                       std::span<const std::byte> sources,
                                                       std::span<const std::byte> destinations,
                                                       const std::vector<bool>& masked) = 0;
  [[nodiscard]] virtual verify::Result check_layout(const plan::Plan& plan,
                                                    std::span<const std::byte> sources,
                                                    std::span<const std::byte> destinations,
                                                    const std::vector<bool>& masked) = 0;
  [[nodiscard]] virtual verify::Result check_poison(const plan::Plan& plan,
                                                    std::span<const std::uint64_t> first,
                                                    std::span<const std::uint64_t> second,
                                                    std::span<const std::byte> destinations,
                                                    std::byte poison) = 0;
};

/// digests() of every destination of a plan.
[[nodiscard]] std::vector<std::uint64_t> destination_digests(Checker& checker, const plan::Plan& plan,
                                                             std::span<const std::byte> destinations);

}  // namespace refit::device
