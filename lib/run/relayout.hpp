// What a staged refit does when all rows are loaded: shuffle and swizzle in place, or nothing but padding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "refit/device/backend.hpp"
#include "refit/plan/plan.hpp"
#include "refit/plan/switches.hpp"
#include "refit/verify/verify.hpp"
#include "run/hooks.hpp"
#include "run/memory_ledger.hpp"
#include "run/stages.hpp"

namespace refit::run {

/// With shuffle=per-expert or batched, rows are loaded in canonical order into the parameters themselves, and
/// scales into a place of this class; with shuffle=fused both go where they are stored.
class Relayout {
 public:
  Relayout(const plan::Plan& plan, const plan::Switches& switches, device::Backend& backend,
           MemoryLedger& ledger, Hooks& hooks);
  Relayout(const Relayout&) = delete;
  Relayout& operator=(const Relayout&) = delete;
  ~Relayout();

  /// Poisons what is kept between refits.
  void poison(std::byte value);
  [[nodiscard]] bool is_fused() const noexcept { return switches_.shuffle == plan::Shuffle::fused; }
  /// Where the row-major scales of one matrix have to be loaded; null: where they are stored, in their
  /// layout.
  [[nodiscard]] std::byte* canonical_scales(std::uint32_t scale_destination, std::uint64_t matrix) const;
  /// Asks for all of it; `executed` takes the padding rows that were written, if they are written here.
  void run(std::span<std::byte> destinations, Stages& stages, std::vector<verify::Executed>* executed);

 private:
  void zero_padding(Stages& stages);
  void shuffle(Stages& stages);
  void shuffle_each_expert(const device::Shuffle& what, Stages& stages);
  void swizzle(Stages& stages);
  void swizzle_destination(std::uint32_t index, Stages& stages);

  const plan::Plan& plan_;
  const plan::Switches& switches_;
  device::Backend& backend_;
  MemoryLedger& ledger_;
  Hooks& hooks_;
  std::span<std::byte> destinations_;
  std::vector<verify::Executed>* executed_ = nullptr;
  /// Row-major scales as they arrive (upstream's *_scale_from_checkpoint), one region for each tiled scale
  /// destination. None with shuffle=fused.
  std::unique_ptr<device::Memory> canonical_scales_;
  std::vector<std::uint64_t> canonical_offset_;
  Scratch scratch_;
};

}  // namespace refit::run
