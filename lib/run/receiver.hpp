// The generator's half of a staged refit: open handles, load, shuffle, swizzle.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "refit/device/backend.hpp"
#include "refit/plan/plan.hpp"
#include "refit/plan/switches.hpp"
#include "refit/plan/wire.hpp"
#include "refit/verify/verify.hpp"
#include "run/hooks.hpp"
#include "run/loader.hpp"
#include "run/memory_ledger.hpp"
#include "run/protocol.hpp"
#include "run/relayout.hpp"
#include "run/replays.hpp"
#include "run/stages.hpp"

namespace refit::run {

/// What the receiver records of a verified refit.
struct ReceiverEvidence {
  std::vector<std::uint64_t> received;  ///< digest of each entry as it was read
  std::vector<std::uint32_t> times_received;
  std::vector<verify::Executed> executed;  ///< rows installed: in canonical order, or where they are stored
};

class Receiver {
 public:
  Receiver(const plan::Plan& plan, const plan::Wire& wire, const plan::Switches& switches,
           device::Backend& backend, MemoryLedger& ledger, Hooks& hooks);
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  /// A new refit over parameters in `destinations`.
  void begin(std::span<std::byte> destinations, ReceiverEvidence* evidence);
  /// Poisons what the receiver keeps for itself between refits.
  void poison(std::byte value) { relayout_.poison(value); }
  /// Loads one bucket and acknowledges it.
  void bucket(Conversation& trainer, transport::Message message, Stages& stages);
  /// After the last bucket: checks that every key came, then shuffles and swizzles in place.
  void finish(Stages& stages, Deadline deadline);

 private:
  using Windows = std::vector<std::unique_ptr<device::Memory>>;
  void open_slot(const BucketMessage& message, transport::Message& raw);
  /// Where each entry of the bucket can be read, by the handles that came with it.
  [[nodiscard]] std::vector<const std::byte*> open_handles(const BucketMessage& message,
                                                           const plan::Bucket& bucket, Windows& windows);
  void record(const plan::Bucket& bucket, const std::vector<const std::byte*>& bytes);
  void load(std::size_t bucket, const std::vector<const std::byte*>& bytes, Stages& stages);
  void install(std::uint32_t entry, const std::byte* bytes, Stages& stages);
  void replay(std::size_t bucket, const std::vector<const std::byte*>& bytes, Stages& stages);
  void record_installed(std::uint32_t entry);
  /// What brings an entry's bytes to their place; op copy, quantize or scales.
  [[nodiscard]] device::Task task_for(std::uint32_t entry, const std::byte* bytes);
  void run_loads(Stages& stages);
  void run_quantize(Stages& stages);

  const plan::Plan& plan_;
  const plan::Wire& wire_;
  const plan::Switches& switches_;
  device::Backend& backend_;
  MemoryLedger& ledger_;
  Hooks& hooks_;
  plan::KeyReader keys_;
  LoaderRoutes routes_;
  std::span<std::byte> destinations_;
  ReceiverEvidence* evidence_ = nullptr;
  std::array<std::unique_ptr<device::Memory>, 2> slots_;
  std::vector<device::Task> loads_, quantizes_;  ///< tasks that wait for their common launch
  Relayout relayout_;
  Replays replays_;
};

}  // namespace refit::run
