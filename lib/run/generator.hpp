// The generator's side of every refit: owns the parameters and their version.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "refit/device/backend.hpp"
#include "refit/run/bench.hpp"
#include "refit/transport/shared_memory.hpp"
#include "run/arm.hpp"
#include "run/hooks.hpp"
#include "run/memory_ledger.hpp"
#include "run/protocol.hpp"
#include "run/receiver.hpp"
#include "run/records.hpp"
#include "run/stages.hpp"

namespace refit::run {

class Generator {
 public:
  Generator(Conversation trainer, const MakeBackend& make_backend);
  /// Serves refits until the trainer says goodbye.
  void serve();
  /// Tells the trainer, if it still listens, why this side stops.
  void report_failure(const std::string& text) noexcept;

 private:
  void set_up();
  void refit(const BeginRecord& begin);
  void receive_staged(const Arm& arm, const BeginRecord& begin, Stages& stages, CommittedRecord& record);
  void receive_direct(Stages& stages);
  [[nodiscard]] std::uint32_t set_to_write(const Arm& arm) const;
  /// What an interrupted refit leaves behind, in words.
  [[nodiscard]] std::string state_in_words(const Arm& arm, std::uint64_t version) const;

  Conversation trainer_;
  const MakeBackend& make_backend_;
  BenchSpec spec_;
  std::unique_ptr<device::Backend> backend_;
  std::vector<Arm> arms_;  ///< control, treatment
  std::unique_ptr<Hooks> hooks_;
  std::array<MemoryLedger, 2> ledgers_;                ///< one an arm
  std::vector<std::unique_ptr<device::Memory>> sets_;  ///< parameters, twice when an arm commits by shadow
  transport::SharedMemory page_;
  std::array<std::unique_ptr<Receiver>, 2> receivers_;  ///< of staged arms
  std::array<Timeline, 2> timelines_;                   ///< one an arm
  Timeline verified_timeline_;                          ///< of refits whose times nobody looks at
  std::uint32_t active_set_ = 0;
  std::uint64_t whole_version_ = VersionPage::kTorn;  ///< of the active set
};

}  // namespace refit::run
