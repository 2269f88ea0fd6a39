// The generator's half of a staged refit: open handles, load, shuffle, swizzle.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "refit/base/thread_pool.hpp"
#include "refit/plan/plan.hpp"
#include "refit/plan/switches.hpp"
#include "refit/plan/wire.hpp"
#include "refit/time/timeline.hpp"
#include "refit/transport/shared_memory.hpp"
#include "refit/verify/verify.hpp"
#include "run/hooks.hpp"
#include "run/loader.hpp"
#include "run/memory_ledger.hpp"
#include "run/protocol.hpp"

namespace refit::run {

/// What the receiver records of a verified refit.
struct ReceiverEvidence {
  std::vector<std::uint64_t> received;  ///< digest of each entry as it was read
  std::vector<std::uint32_t> times_received;
  std::vector<verify::Executed> executed;  ///< rows installed, in canonical order
};

/// A handle opened on its own: the pages that hold a tensor, mapped until this goes.
class MappedWindow {
 public:
  MappedWindow(int fd, std::uint64_t offset, std::uint64_t bytes);
  MappedWindow(MappedWindow&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), mapped_(other.mapped_), data_(other.data_) {}
  MappedWindow& operator=(MappedWindow&&) = delete;
  ~MappedWindow();
  [[nodiscard]] const std::byte* data() const noexcept { return data_; }

 private:
  void* base_ = nullptr;
  std::size_t mapped_ = 0;
  const std::byte* data_ = nullptr;
};

class Receiver {
 public:
  Receiver(const plan::Plan& plan, const plan::Wire& wire, const plan::Switches& switches, ThreadPool& pool,
           MemoryLedger& ledger, Hooks& hooks);
  ~Receiver();

  /// A new refit over parameters in `destinations`.
  void begin(std::span<std::byte> destinations, ReceiverEvidence* evidence);
  /// Poisons what the receiver keeps for itself between refits (canonical scales).
  void poison(std::byte value);
  /// Loads one bucket and acknowledges it.
  void bucket(Conversation& trainer, transport::Message message, Timeline& timeline);
  /// After the last bucket: checks that every key came, then shuffles and swizzles in place.
  void finish(Timeline& timeline);

  [[nodiscard]] std::uint64_t handles_opened() const noexcept { return handles_opened_; }

 private:
  struct Slot {
    transport::SharedMemory memory;
  };
  void map_slot(const BucketMessage& message, transport::Message& raw);
  /// Where each entry of the bucket can be read, by the handles that came with it.
  [[nodiscard]] std::vector<const std::byte*> open_handles(const BucketMessage& message,
                                                           const plan::Bucket& bucket,
                                                           std::vector<MappedWindow>& windows);
  void record(const plan::Bucket& bucket, const std::vector<const std::byte*>& bytes);
  void load(const plan::Bucket& bucket, const std::vector<const std::byte*>& bytes, Timeline& timeline);
  void install(std::uint32_t entry, const std::byte* bytes, Timeline& timeline);
  void copy_entry(std::uint32_t entry, const std::byte* bytes);
  void quantize_pending(Timeline& timeline);
  struct Landing {
    std::byte* values;
    std::byte* scales;
  };
  [[nodiscard]] Landing landing(std::uint32_t entry);
  void shuffle(Timeline& timeline);
  void swizzle(Timeline& timeline);
  void shuffle_destination(const plan::Destination& weight, Timeline& timeline);
  void swizzle_destination(std::uint32_t index, Timeline& timeline);

  const plan::Plan& plan_;
  const plan::Wire& wire_;
  const plan::Switches& switches_;
  ThreadPool& pool_;
  MemoryLedger& ledger_;
  Hooks& hooks_;
  plan::KeyReader keys_;
  LoaderRoutes routes_;
  std::span<std::byte> destinations_;
  ReceiverEvidence* evidence_ = nullptr;
  std::array<Slot, 2> slots_;
  /// Row-major scales as they arrive (upstream's *_scale_from_checkpoint), one region for each tiled scale
  /// destination.
  std::vector<std::byte> canonical_scales_;
  std::vector<std::uint64_t> canonical_offset_;
  std::vector<std::pair<std::uint32_t, const std::byte*>>
      pending_;  ///< BF16 entries that wait for their batch
  Scratch scratch_;
  std::uint64_t handles_opened_ = 0;
};

}  // namespace refit::run
