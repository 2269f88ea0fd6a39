// The trainer's side: owns the weights, starts the generator, and carries out refits of either arm.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "refit/base/error.hpp"
#include "refit/base/thread_pool.hpp"
#include "refit/device/backend.hpp"
#include "refit/run/bench.hpp"
#include "refit/transport/child_process.hpp"
#include "refit/transport/shared_memory.hpp"
#include "run/arm.hpp"
#include "run/hooks.hpp"
#include "run/memory_ledger.hpp"
#include "run/protocol.hpp"
#include "run/records.hpp"
#include "run/sender.hpp"
#include "run/stages.hpp"

namespace refit::run {

inline constexpr std::size_t kControl = 0, kTreatment = 1;

/// One refit as it happened, both processes.
struct RefitRecord {
  double seconds = 0;  ///< from the trainer's "go" to the generator's commit
  double trainer_unattributed = 0;
  std::vector<StageTotal> trainer_stages;
  std::vector<device::StageTime> trainer_device_stages;  ///< when profiled
  CommittedRecord generator;
  std::uint32_t set = 0;  ///< the parameter set that was written
  std::uint64_t messages = 0, message_bytes = 0;
  std::uint64_t trainer_peak_extra = 0;
  bool fault_acted = false;  ///< on either side
  // Evidence, when verified.
  SenderEvidence sent;
  std::vector<verify::Executed> executed;  ///< direct
};

class Trainer {
 public:
  /// Builds both plans, fills the weights of step 0, starts the generator and agrees on plans and manifests
  /// with it.
  Trainer(const BenchSpec& spec, std::unique_ptr<device::Backend> backend);
  /// Ends the generator: asked to leave, waited for, killed after a time limit.
  ~Trainer();

  /// Weights of the next step.
  void update_weights();
  /// Fills the parameters that the arm's next refit writes with one byte.
  void poison(std::size_t arm, std::byte value);
  /// How a refit is looked at.
  struct Look {
    bool verify = false;   ///< both sides record evidence, and the times are not comparable
    std::byte poison{};    ///< into what the generator keeps for itself between refits, when verifying
    bool profile = false;  ///< both sides measure stages on the device
  };
  /// One refit of an arm.
  [[nodiscard]] RefitRecord refit(std::size_t arm, const Look& look);
  /// What both sides kept of the arm's last refit that was not verified: trainer, generator. Memory with what
  /// the backend takes for itself.
  [[nodiscard]] std::array<KeptRecord, 2> kept(std::size_t arm);
  /// Says goodbye and waits for the generator; Error(runtime) when it did not end well.
  void finish();

  [[nodiscard]] const Arm& arm(std::size_t index) const { return arms_[index]; }
  [[nodiscard]] std::span<std::byte> sources() const { return sources_->bytes(); }
  [[nodiscard]] std::span<std::byte> destinations(std::uint32_t set) const { return sets_[set]->bytes(); }
  [[nodiscard]] std::uint64_t version() const noexcept { return version_; }
  [[nodiscard]] std::uint64_t committed_version() const { return VersionPage(page_.bytes()).load(); }
  [[nodiscard]] device::Backend& backend() noexcept { return *backend_; }
  /// For what is judged on the host.
  [[nodiscard]] ThreadPool& pool() noexcept { return pool_; }

 private:
  void start_generator();
  void accept(const ReadyRecord& ready, transport::Message& message);
  void refit_direct(std::size_t arm, bool verify, Stages& stages, RefitRecord& record);
  [[nodiscard]] std::vector<device::Task> direct_tasks(const Arm& arm, std::uint32_t set,
                                                       std::vector<verify::Executed>& executed) const;
  [[nodiscard]] std::uint32_t set_to_write(std::size_t arm) const;
  [[nodiscard]] std::string end_of_generator();
  /// Turns a broken conversation into an error that says how the generator ended.
  [[noreturn]] void explain(const Error& error);

  BenchSpec spec_;
  std::unique_ptr<device::Backend> backend_;
  ThreadPool pool_;
  std::array<MemoryLedger, 2> ledgers_;  ///< one an arm
  std::vector<Arm> arms_;
  std::unique_ptr<Hooks> hooks_;
  std::unique_ptr<device::Memory> sources_;
  std::optional<transport::ChildProcess> child_;
  std::optional<Conversation> generator_;
  std::vector<std::unique_ptr<device::Memory>> sets_;
  transport::SharedMemory page_;
  std::array<std::unique_ptr<Sender>, 2> senders_;  ///< of staged arms
  /// Of direct arms, by arm and parameter set; made when first needed.
  std::array<std::array<std::unique_ptr<device::Program>, 2>, 2> programs_;
  std::array<Timeline, 2> timelines_;  ///< one an arm
  Timeline verified_timeline_;         ///< of refits whose times nobody looks at
  std::uint32_t active_set_ = 0;
  std::uint64_t step_ = 0, version_ = 0;
};

}  // namespace refit::run
