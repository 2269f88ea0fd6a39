// One arm's refit on one rank: rounds that are packed, exchanged and placed, two of them under way.
//
//   round k:   pack into slot k % 2, start            the exchange moves round k
//   meanwhile: place round k - 1 from its slot        (in order on the backend's stream)
//   direct:    what stays in the process goes from tensor to parameter in one pass
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ranks/messages.hpp"
#include "ranks/peer_writes.hpp"
#include "ranks/peers.hpp"
#include "ranks/rounds.hpp"
#include "ranks/share.hpp"
#include "ranks/tasks.hpp"
#include "refit/device/backend.hpp"
#include "refit/plan/switches.hpp"
#include "refit/ranks/ranks.hpp"
#include "refit/transport/group.hpp"
#include "run/hooks.hpp"
#include "run/memory_ledger.hpp"
#include "run/relayout.hpp"
#include "run/stages.hpp"

namespace refit::ranks {

/// What a rank has to do its part. A rank without a role has no share of it.
struct Equipment {
  device::Backend& backend;
  transport::Group& group;
  transport::Exchange& exchange;
  run::MemoryLedger& ledger;
  const TrainerShare* trainer = nullptr;
  std::span<std::byte> sources{};
  const GeneratorShare* generator = nullptr;
  std::span<std::byte> destinations{};
  double timeout_s = 60;
  const Peers* peers = nullptr;  ///< where pipeline=direct writes straight into them
  std::function<std::unique_ptr<GeneratorShare>(std::uint32_t process)> share_of{};
  std::uint32_t process = 0;
  bool broadcast = false;  ///< of all that is sent
  [[nodiscard]] Deadline deadline() const {
    return Deadline::after(std::chrono::duration<double>(timeout_s));
  }
};

struct Evidence {
  ByPeer sent, received;
  bool guards_intact = true;
};

class Refit {
 public:
  /// `plan` is the rank's (sends and receives listed) and outlives the refit; `rounds` are of it, none where
  /// it writes into its peers' memory.
  Refit(const reshard::Reshard& plan, std::vector<Round> rounds, const model::Inventory& model,
        const Processes& processes, const plan::Switches& switches, const Equipment& equipment);
  Refit(const Refit&) = delete;
  Refit& operator=(const Refit&) = delete;
  ~Refit();

  /// All rounds, then shuffle and swizzle; returns when this rank is done, not when all are.
  void run(run::Stages& stages, Evidence* evidence);
  /// Poisons what is kept between refits.
  void poison(std::byte value);

  /// Of the last run.
  [[nodiscard]] const std::vector<RoundTimes>& times() const noexcept { return times_; }
  /// Whether it writes into the other ranks' memory.
  [[nodiscard]] bool writes_to_peers() const noexcept { return writes_.has_value(); }
  /// What the rank never holds more of, beside sources and parameters: two slots, the scratch of late
  /// quantization, and what Relayout keeps.
  [[nodiscard]] std::uint64_t most_extra_bytes() const noexcept { return most_extra_bytes_; }

 private:
  struct Slot {
    std::shared_ptr<device::Memory> send, receive;
  };
  /// Work that is the same in every refit: in one call, prepared, or a call for each task.
  struct List {
    std::vector<device::Task> tasks;
    std::unique_ptr<device::Program> program;
    std::uint64_t bytes = 0;
  };
  struct Lists {
    List pack, place, met;
  };

  [[nodiscard]] std::byte* send_buffer(std::size_t round) const;
  [[nodiscard]] std::byte* receive_buffer(std::size_t round) const;
  [[nodiscard]] quant::Options quant_options() const noexcept {
    return {switches_.rounding, switches_.zero_scale, switches_.non_finite};
  }
  [[nodiscard]] Lists lists_of(std::size_t round);
  [[nodiscard]] double now() const { return std::chrono::duration<double>(Clock::now() - started_).count(); }
  void pack(std::size_t round, run::Stages& stages, Evidence* evidence);
  void place(std::size_t round, run::Stages& stages, Evidence* evidence);
  void prepare(List& list, bool one_call);
  void run_list(const List& list, run::Stages& stages);
  void check_guards(Evidence& evidence);

  const model::Inventory& model_;
  plan::Switches switches_;
  Equipment equipment_;
  bool direct_, fused_;
  std::vector<Round> rounds_;
  std::vector<Meeting> meetings_;  ///< by round
  std::array<Slot, transport::Exchange::kSlots> slots_;
  std::size_t slots_used_ = transport::Exchange::kSlots;
  std::unique_ptr<device::Memory> scratch_;
  std::optional<run::Hooks> hooks_;
  std::optional<run::Relayout> relayout_;
  std::optional<Placer> placer_;
  std::vector<Lists> lists_;   ///< by round
  std::size_t under_way_ = 0;  ///< rounds
  Clock::time_point started_{};
  std::vector<RoundTimes> times_;
  std::optional<PeerWrites> writes_;
  std::uint64_t held_bytes_ = 0, most_extra_bytes_ = 0;
};

}  // namespace refit::ranks
