// Everything one rank holds during a bench, and its part of each step.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ranks/refit.hpp"
#include "ranks/share.hpp"
#include "ranks/simulated.hpp"
#include "refit/ranks/ranks.hpp"

namespace refit::ranks {

/// What every rank computes alone before anything is allocated.
struct Setup {
  explicit Setup(const Spec& spec);
  Setup(const Setup&) = delete;
  Setup& operator=(const Setup&) = delete;

  const Spec& spec;
  model::Inventory model;
  std::vector<bool> quantized;
  std::unique_ptr<reshard::Layout> trainer, generator;
  std::unique_ptr<reshard::Layout> everything;  ///< one rank that wants all; null without a broadcast
  Processes processes;

  [[nodiscard]] const plan::Switches& switches(std::size_t arm) const noexcept {
    return arm == 0 ? spec.bench.control : spec.bench.treatment;
  }
  [[nodiscard]] plan::Request request(std::size_t arm) const;
  [[nodiscard]] std::optional<std::uint32_t> trainer_rank(std::uint32_t process) const;
  [[nodiscard]] std::optional<std::uint32_t> generator_rank(std::uint32_t process) const;
  /// The plan of one arm, with one process's sends and receives.
  [[nodiscard]] reshard::Reshard plan(std::size_t arm, std::uint32_t process) const;
  [[nodiscard]] bool broadcasts(std::size_t arm) const noexcept {
    return everything != nullptr && switches(arm).pipeline == plan::Pipeline::staged;
  }
  /// Of plan(arm, process), which outlives them.
  [[nodiscard]] std::vector<Round> rounds(std::size_t arm, const reshard::Reshard& plan,
                                          std::uint32_t process) const;
};

/// One process of the bench.
class Rank {
 public:
  /// `exchange` is null for a simulated rank, which has its own.
  Rank(const Setup& setup, std::array<reshard::Reshard, 2> plans, transport::Group& group,
       transport::Exchange* exchange, std::unique_ptr<device::Backend> backend);

  /// From the weights of one step to the next.
  void update_weights();
  /// A timed refit: every rank begins together; the row gets a sample when `measured`.
  void refit(std::size_t arm, bool measured);
  /// Before a refit that will be verified, and after it: the same weights once more, over another poison,
  /// judged.
  void poison(std::size_t arm, std::byte value);
  void verify(std::size_t arm);

  [[nodiscard]] device::Backend& backend() noexcept { return *backend_; }
  [[nodiscard]] RankRow& row() noexcept { return row_; }
  [[nodiscard]] const reshard::Reshard& plan(std::size_t arm) const noexcept { return arms_[arm]->plan; }
  /// Copies from sources to parameters, as the backend measures them; none on a rank without both.
  void measure_copy(run::CopyBandwidth& copy);
  [[nodiscard]] Deadline deadline() const;

 private:
  struct Arm {
    reshard::Reshard plan;
    std::optional<GeneratorShare> generator;
    run::MemoryLedger ledger;
    std::unique_ptr<SimulatedPeers> simulated;  ///< null where there are others
    std::optional<Refit> refit;
    RankArm* row = nullptr;
  };

  /// For one rank's turn of it.
  [[nodiscard]] Deadline time_to_verify() const;
  void run_once(std::size_t arm, Evidence* evidence);
  void equip(std::size_t arm, transport::Exchange* exchange);
  [[nodiscard]] std::unique_ptr<GeneratorShare> share_of(std::size_t arm, std::uint32_t process) const;
  void judge_wire(std::size_t arm, const Evidence& evidence, verify::Verdict& verdict);
  void judge_mapping(std::size_t arm, verify::Verdict& verdict);
  void judge_parameters(std::size_t arm, const std::vector<std::uint64_t>& first, verify::Verdict& verdict);
  [[nodiscard]] std::unique_ptr<device::Memory> reference(const Arm& arm);

  const Setup& setup_;
  transport::Group& group_;
  std::unique_ptr<device::Backend> backend_;
  ThreadPool pool_;
  std::optional<TrainerShare> trainer_;
  std::unique_ptr<device::Memory> sources_, destinations_;
  std::optional<Peers> peers_;
  std::array<std::unique_ptr<Arm>, 2> arms_;
  Timeline timeline_;
  run::Stages stages_;
  RankRow row_;
  std::uint64_t step_ = 0, version_ = 0;
};

}  // namespace refit::ranks
