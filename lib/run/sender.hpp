// The trainer's half of a staged refit: gather, quantize, pack, publish, wait.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "refit/device/backend.hpp"
#include "refit/plan/plan.hpp"
#include "refit/plan/switches.hpp"
#include "refit/plan/wire.hpp"
#include "refit/verify/verify.hpp"
#include "run/bucket_buffers.hpp"
#include "run/hooks.hpp"
#include "run/memory_ledger.hpp"
#include "run/protocol.hpp"
#include "run/replays.hpp"
#include "run/stages.hpp"

namespace refit::run {

/// What the sender records of a verified refit.
struct SenderEvidence {
  verify::Result packed;            ///< quantizer check of every bucket
  std::vector<bool> wrong_entries;  ///< that it found wrong; empty: none
  std::vector<std::uint64_t> sent;  ///< digest of each entry
  bool guards_intact = true;
};

class Sender {
 public:
  Sender(const plan::Plan& plan, const plan::Wire& wire, const plan::Switches& switches,
         std::span<const std::byte> sources, device::Backend& backend, MemoryLedger& ledger, Hooks& hooks);

  /// Sends all buckets and waits until each is acknowledged. `evidence` is filled when given.
  void run(Conversation& generator, Stages& stages, SenderEvidence* evidence);
  /// The generator has committed and holds no handle of a buffer any more: frees them, unless they persist.
  void end(Stages& stages);

 private:
  void wait_for_slot(Conversation& generator, BucketBuffers::Slot& slot, Stages& stages);
  void pack_bucket(std::size_t bucket, std::span<std::byte> out, Stages& stages);
  void gather(const plan::Bucket& what, Stages& stages);
  void pack_in_one_call(std::size_t bucket, std::span<std::byte> out, Stages& stages);
  void pack_entry(std::uint32_t entry, std::byte* to, Stages& stages);
  void quantize_to_scratch(std::uint32_t entry, Stages& stages);
  void run_batch(Stages& stages);
  [[nodiscard]] std::byte* scales_place(std::size_t bucket, std::uint32_t entry, std::span<std::byte> out);
  [[nodiscard]] device::Task copy_task(std::uint32_t entry, std::byte* to) const;
  [[nodiscard]] bool quantized(std::uint32_t entry) const;
  [[nodiscard]] device::Task quantize_task(std::uint32_t entry, std::byte* values, std::byte* scales) const;
  [[nodiscard]] const std::byte* source_rows(const plan::WireEntry& entry) const;
  void record(std::size_t bucket, std::span<const std::byte> packed, SenderEvidence& evidence);
  void publish(Conversation& generator, std::size_t bucket, BucketBuffers::Slot& slot);

  const plan::Plan& plan_;
  const plan::Wire& wire_;
  const plan::Switches& switches_;
  std::span<const std::byte> sources_;
  device::Backend& backend_;
  Hooks& hooks_;
  BucketBuffers buffers_;
  Scratch scratch_;  ///< a quantized tensor (per-tensor)
  /// Scales of the last tensor of a bucket, which begin the next one: buckets take turns, because one launch
  /// may read what the bucket before left and write what the next one needs.
  std::array<Scratch, 2> next_scales_;
  std::uint64_t largest_scales_ = 0;
  Replays replays_;
  std::unordered_map<std::string_view, std::uint32_t> source_by_name_;
  std::vector<const std::byte*> gathered_;   ///< where each entry's source rows are, for the bucket in hand
  std::vector<const std::byte*> quantized_;  ///< where each entry that is made before it is packed lies
  std::vector<device::Task> batch_;          ///< tasks that wait for their common launch
};

}  // namespace refit::run
