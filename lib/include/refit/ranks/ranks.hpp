// A bench over many ranks: every rank holds its share of trainer and generator, both arms take turns, and a
// step's time is that of the slowest rank.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "refit/reshard/layout.hpp"
#include "refit/reshard/reshard.hpp"
#include "refit/run/bench.hpp"
#include "refit/time/timeline.hpp"
#include "refit/transport/group.hpp"

namespace refit::ranks {

struct Spec {
  run::BenchSpec
      bench;  ///< model, slice, recipe, switches, steps; its generator program and transport are not used
  std::string build;  ///< of the program, which all ranks have to share; for messages
  reshard::Parallelism trainer, generator;
  reshard::TrainerForm form = reshard::TrainerForm::megatron;
  bool colocated = true;
  std::uint32_t gpus_per_node = 8;
  /// pipeline=direct writes into the other ranks' parameters, which have to be on the same host; other arms
  /// use the exchange all the same.
  bool peer_memory = false;
  /// pipeline=staged sends every byte to every rank, as a framework does that broadcasts its buckets.
  bool broadcast = false;
  /// This process alone, without the others: what they would send is made here before each refit, and moves
  /// within this process's memory.
  std::optional<std::uint32_t> simulated_rank;

  /// Processes: the larger side when colocated, else both sides together.
  [[nodiscard]] std::uint32_t processes() const noexcept;
};

/// One round of one refit, in seconds from the common start: the rank begins to pack it, hands it to the
/// exchange, sees that it has arrived, and has placed it (on a GPU: asked for that).
struct RoundTimes {
  double pack = 0, start = 0, arrived = 0, placed = 0;
};

/// What one rank of one arm did: a row of the report.
struct RankArm {
  std::vector<double> seconds;  ///< from the common start to this rank's end, a sample a measured step
  std::vector<double> unattributed;
  std::vector<double> offload, swap;  ///< stand-ins for the host traffic around the refit
  std::vector<run::StageSamples> stages;
  /// Of the last measured refit; none where no exchange is used, or a simulated one, which is no slower than
  /// memory.
  std::vector<RoundTimes> rounds;
  Recording last{};  ///< of the same refit, where spans are kept
  std::vector<std::uint64_t> sent,
      received;  ///< bytes of one refit, by peer's process; what stays is at the rank's own
  std::uint64_t peak_extra_bytes = 0;
  std::uint64_t most_extra_bytes = 0;  ///< what it may hold at most, as planned; a peak above it is an error
  /// Each byte of the trainer's that this rank sends or keeps read once, each byte of its parameters written
  /// once.
  std::uint64_t floor_bytes = 0;
  /// What the rank gets from others or gives to them, whichever is more: links work both ways at once.
  std::uint64_t link_bytes = 0;
  std::uint64_t parameters_digest = 0;  ///< after the last verified refit; 0 without a generator's role
  verify::Verdict verdict;
};

/// The sum over all peers but the rank itself.
[[nodiscard]] std::uint64_t of_others(const std::vector<std::uint64_t>& by_peer, std::uint32_t self);

struct RankRow {
  std::uint32_t rank = 0;
  std::string host;
  std::uint64_t source_bytes = 0, destination_bytes = 0;  ///< that it holds
  RankArm control, treatment;
};

struct Result {
  run::BenchResult bench;  ///< of all ranks: times are the slowest rank's, bytes the sum
  std::vector<RankRow> ranks;
  reshard::Parallelism trainer, generator;  ///< resolved
  /// How bytes moved: "threads", "mpi", "nccl", "mpi+peer", "nccl-broadcast", "simulated".
  std::string exchange;
  std::optional<std::uint32_t> simulated_rank;  ///< the only row there is
  std::vector<std::string> notes;
  std::uint32_t rounds_control = 0, rounds_treatment = 0;
};

/// Bytes that all ranks of the spec hold together, with verification where it is on (ranks that share a
/// host's memory verify one after the other), and what the rank that needs most holds. Of a simulated rank:
/// its own, with what its peers send.
struct MemoryNeeded {
  std::uint64_t together = 0, largest_rank = 0;
};
[[nodiscard]] MemoryNeeded memory_needed(const Spec& spec);

/// Names of the switches that ranks do not look at: there are no handles, and buffers stay.
[[nodiscard]] std::vector<std::string> unused_switches(const plan::Switches& switches);

/// Runs this rank's part. The result is complete on rank 0 and empty on all others. Every rank first compares
/// what it was asked to do with all others: Error(input) that names the first difference before anything is
/// allocated. Error(runtime) as Group and Exchange throw it.
[[nodiscard]] Result run_bench(const Spec& spec, transport::Group& group, transport::Exchange& exchange,
                               const run::MakeBackend& make_backend, const run::Progress& progress = {});

/// The same for spec.simulated_rank, which is there, in this process alone. Error(input) for a rank that does
/// not exist or that only sends, whose bytes nobody would see, and for peer memory, which has no peers.
[[nodiscard]] Result run_simulated(const Spec& spec, const run::MakeBackend& make_backend,
                                   const run::Progress& progress = {});

}  // namespace refit::ranks
