// Verification on the host: refit/verify with the backend's threads.
#pragma once

#include "refit/base/thread_pool.hpp"
#include "refit/device/checker.hpp"

namespace refit::device {

class HostChecker final : public Checker {
 public:
  explicit HostChecker(ThreadPool& pool) : pool_(pool) {}
  void poison(std::span<const verify::Extent> extents, std::span<std::byte> arena, std::byte value) override;
  void fill_guards(std::span<const verify::Extent> extents, std::span<std::byte> arena) override;
  verify::Result check_guards(std::span<const verify::Extent> extents,
                              std::span<const std::byte> arena) override;
  std::vector<std::uint64_t> digests(std::span<const std::span<const std::byte>> ranges) override;
  verify::Result check_packed(const plan::Plan& plan, const plan::Wire& wire, std::size_t bucket,
                              std::span<const std::byte> packed, std::span<const std::byte> sources,
                              std::vector<bool>* wrong_entries) override;
  verify::InPlace check_in_place(const plan::Plan& plan, std::span<const std::byte> sources,
                                 std::span<const std::byte> destinations,
                                 const std::vector<bool>& masked) override;
  verify::Result check_layout(const plan::Plan& plan, std::span<const std::byte> sources,
                              std::span<const std::byte> destinations,
                              const std::vector<bool>& masked) override;
  verify::Result check_poison(const plan::Plan& plan, std::span<const std::uint64_t> first,
                              std::span<const std::uint64_t> second, std::span<const std::byte> destinations,
                              std::byte poison) override;

 private:
  ThreadPool& pool_;
};

}  // namespace refit::device
