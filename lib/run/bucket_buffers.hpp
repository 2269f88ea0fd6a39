// The sender's staging buffers: one or two slots of shared memory that buckets take turns in.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "refit/device/backend.hpp"
#include "refit/plan/switches.hpp"
#include "refit/plan/wire.hpp"
#include "run/memory_ledger.hpp"

namespace refit::run {

class BucketBuffers {
 public:
  struct Slot {
    std::unique_ptr<device::Memory> memory;
    bool announced = false;  ///< the generator has its handle
    bool in_flight = false;  ///< published and not yet acknowledged
  };

  BucketBuffers(device::Backend& backend, const plan::Switches& switches, const plan::Wire& wire,
                MemoryLedger& ledger);
  BucketBuffers(const BucketBuffers&) = delete;
  BucketBuffers& operator=(const BucketBuffers&) = delete;
  ~BucketBuffers();

  /// Bytes of one slot: the bucket limit asked for, or the largest bucket if that is smaller.
  [[nodiscard]] std::uint64_t slot_bytes() const noexcept { return slot_bytes_; }
  [[nodiscard]] std::uint32_t slots() const noexcept { return slots_; }
  /// The slot of the n-th bucket; allocated on first use, guard bytes behind its end.
  [[nodiscard]] Slot& slot_for(std::size_t bucket);
  [[nodiscard]] Slot& slot(std::uint32_t index) { return slot_[index]; }
  [[nodiscard]] std::uint32_t index_for(std::size_t bucket) const noexcept {
    return static_cast<std::uint32_t>(bucket % slots_);
  }
  /// Whether the guard bytes of every allocated slot are as they were.
  [[nodiscard]] bool guards_intact() const;
  /// Frees the memory; the next use allocates anew (per-refit buffers).
  void release();

 private:
  device::Backend& backend_;
  std::uint64_t slot_bytes_ = 0;
  std::uint32_t slots_ = 1;
  std::array<Slot, 2> slot_;
  MemoryLedger& ledger_;
};

}  // namespace refit::run
