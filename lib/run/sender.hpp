// The trainer's half of a staged refit: gather, quantize, pack, publish, wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "refit/base/thread_pool.hpp"
#include "refit/plan/plan.hpp"
#include "refit/plan/switches.hpp"
#include "refit/plan/wire.hpp"
#include "refit/time/timeline.hpp"
#include "refit/verify/verify.hpp"
#include "run/bucket_buffers.hpp"
#include "run/hooks.hpp"
#include "run/memory_ledger.hpp"
#include "run/protocol.hpp"

namespace refit::run {

/// What the sender records of a verified refit.
struct SenderEvidence {
  verify::Result packed;            ///< quantizer check of every bucket
  std::vector<std::uint64_t> sent;  ///< digest of each entry
  bool guards_intact = true;
};

class Sender {
 public:
  Sender(const plan::Plan& plan, const plan::Wire& wire, const plan::Switches& switches,
         std::span<const std::byte> sources, ThreadPool& pool, MemoryLedger& ledger, Hooks& hooks);

  /// Sends all buckets and waits until each is acknowledged. `evidence` is filled when given.
  void run(Conversation& generator, Timeline& timeline, SenderEvidence* evidence);

 private:
  void wait_for_slot(Conversation& generator, BucketBuffers::Slot& slot, Timeline& timeline);
  void pack_bucket(std::size_t bucket, std::span<std::byte> out, Timeline& timeline);
  void quantize_from(std::uint32_t entry, Timeline& timeline);
  [[nodiscard]] const std::byte* source_rows(const plan::WireEntry& entry) const;
  void publish(Conversation& generator, std::size_t bucket, BucketBuffers::Slot& slot);

  const plan::Plan& plan_;
  const plan::Wire& wire_;
  const plan::Switches& switches_;
  std::span<const std::byte> sources_;
  ThreadPool& pool_;
  Hooks& hooks_;
  BucketBuffers buffers_;
  Scratch scratch_;
  std::unordered_map<std::string_view, std::uint32_t> source_by_name_;
  std::vector<const std::byte*> gathered_;  ///< where each entry's source rows are, for the bucket in hand
  std::vector<std::byte*> quantized_;       ///< where each quantized entry of the current batch is
  std::uint32_t quantized_end_ = 0;         ///< entries before this one are quantized
};

}  // namespace refit::run
