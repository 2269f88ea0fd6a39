// Which part of a scenario's model is replayed on this machine, and what it amounts to beside the whole.
#pragma once

#include <cstdint>
#include <string>

#include "refit/model/inventory.hpp"
#include "refit/run/bench.hpp"
#include "refit/scenario/scenario.hpp"

namespace refit::scenario {

/// What the caller fixes; 0 leaves the choice to choose_replay.
struct ReplayRequest {
  std::uint64_t layers = 0, experts = 0;
  /// Bytes of the backend's memory for all processes that share it; 0: default_memory_budget()
  std::uint64_t memory_budget = 0;
  device::Choice backend{};  ///< of each process
};

/// Half of the host memory that is free, at most 7 GiB.
[[nodiscard]] std::uint64_t default_memory_budget();

/// What a refit of some inventory moves, in one arm.
struct ArmAmounts {
  std::uint64_t wire_bytes = 0;  ///< payload that crosses between the processes
  std::uint64_t keys = 0;        ///< wire entries; direct: segments
  std::uint64_t buckets = 0;     ///< 0 when direct
};

struct Amounts {
  std::uint64_t layers = 0, experts = 0, vocab_rows = 0;  ///< experts of one layer
  std::uint64_t tensors = 0, parameters = 0, bytes = 0, expert_bytes = 0;
  std::uint64_t quantized_tensors = 0;
  std::uint64_t source_bytes = 0, destination_bytes = 0;
  std::uint64_t memory_needed = 0;  ///< bytes that all processes hold while both arms take turns
  ArmAmounts control, treatment;
  /// Each source byte read once, each destination byte written once.
  [[nodiscard]] std::uint64_t floor_bytes() const noexcept { return source_bytes + destination_bytes; }
};

struct Replay {
  run::BenchSpec spec;  ///< model, slice, recipe, layout, switches, host traffic, threads are set
  Amounts whole, part;  ///< the same when nothing is cut
  std::uint64_t memory_budget = 0;
  bool buffers_scaled = false;  ///< buffer_size shrank with the model in at least one arm
  std::string sentence;         ///< what is replayed: the first line of every output
  [[nodiscard]] bool cut() const noexcept { return !spec.slice.whole(); }
  /// Bytes replayed over bytes of the model.
  [[nodiscard]] double fraction() const noexcept;
  /// What scales a measured time to the whole model: its floor bytes over the floor bytes replayed.
  [[nodiscard]] double extrapolation() const noexcept;
};

/// The largest replay within the budget: whole layers, at least two of each class (all of a class of one),
/// always with embeddings, norms and head; if these do not fit, as many whole experts of them as fit; then a
/// slice of the embedding rows. Needs no tensor memory. Error(input): what plan::build or
/// plan::check_compatible refuses, and a budget that nothing fits, with the numbers.
[[nodiscard]] Replay choose_replay(const Scenario& scenario, const model::Inventory& model,
                                   const ReplayRequest& request);

}  // namespace refit::scenario
