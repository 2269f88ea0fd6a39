// What both processes derive from a BenchSpec for one arm: plan and wire.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "refit/plan/plan.hpp"
#include "refit/plan/wire.hpp"
#include "refit/run/bench.hpp"

namespace refit::run {

struct Arm {
  plan::Switches switches;
  plan::Plan plan;
  plan::Wire wire;  ///< empty for pipeline=direct
  Arm(const BenchSpec& spec, const plan::Switches& how);
};

/// The page, shared with the trainer, in which the generator says what its parameters hold: a version number
/// from 1 up, or kTorn from before the first byte of a refit is written until it is committed.
class VersionPage {
 public:
  static constexpr std::uint64_t kTorn = 0;
  explicit VersionPage(std::span<std::byte> page) : version_(reinterpret_cast<std::uint64_t*>(page.data())) {}
  [[nodiscard]] std::uint64_t load() const {
    return std::atomic_ref(*version_).load(std::memory_order_acquire);
  }
  void store(std::uint64_t version) { std::atomic_ref(*version_).store(version, std::memory_order_release); }

 private:
  std::uint64_t* version_;
};

}  // namespace refit::run
