// Runs both arms of a scenario between two processes, interleaved step by step, and verifies them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "refit/device/backend.hpp"
#include "refit/model/inventory.hpp"
#include "refit/model/recipe.hpp"
#include "refit/plan/plan.hpp"
#include "refit/plan/switches.hpp"
#include "refit/run/result.hpp"

namespace refit::run {

enum class VerifyWhen : std::uint8_t { off, first, every };

/// Host traffic around the transfer, of this rank's replayed share.
struct HostTraffic {
  std::uint64_t offload_full_bytes = 0;    ///< gradients and optimizer shards that offload=full moves
  std::uint64_t offload_slim_bytes = 0;    ///< the part that offload=slim still moves
  std::uint64_t reference_swap_bytes = 0;  ///< reference policy weights swapped in and out, one way
};

/// Everything both processes need to compute the same plan, and how to run it.
struct BenchSpec {
  std::string config_json, config_place;  ///< text of the model's config.json and the name for messages
  model::Slice slice;
  model::Recipe recipe;
  plan::MoeLayout moe_layout = plan::MoeLayout::flashinfer_trtllm;
  plan::Switches control, treatment;
  bool control_alone = false;  ///< run the control arm only
  HostTraffic host_traffic;
  /// Where the trainer's first weights come from: a checkpoint (refit/checkpoint/checkpoint.hpp) that holds
  /// every tensor of the replay with its dtype; empty: seeded values.
  std::string checkpoint;
  std::uint64_t seed = 1;
  device::Choice backend;           ///< in each process
  unsigned steps = 20, warmup = 2;  ///< steps counts the warm-up
  double time_budget_s = 150;       ///< stop early after this, never with fewer than 5 measured steps
  double timeout_s = 60;            ///< the longest that one side waits for the other
  VerifyWhen verify = VerifyWhen::first;
  std::string fault;                   ///< name of a planted fault (run/faults.hpp), empty for none
  std::vector<verify::Check> without;  ///< checks that are switched off
  /// For tests: each refit of the arm is held up by this share of the time that it took.
  double control_held_up = 0, treatment_held_up = 0;
  bool measure_copy = true;
  /// Of each control thread's last measured refit of an arm, for RoleTime::last; 0: none.
  std::uint32_t keep_spans = 0;
  /// How to start the generator: program and arguments; it has to call run_generator(3).
  std::string generator_program;
  std::vector<std::string> generator_arguments;
};

/// Called before each step with the number of steps done and planned (for a progress bar).
using Progress = std::function<void(unsigned done, unsigned planned, const std::string& what)>;

/// The bytes that both processes together hold in the backend's memory during a run: sources, parameters
/// (twice with commit=shadow), buffers and scratch of both arms, and what the backend takes for itself. Used
/// to choose a slice and to refuse before allocating.
[[nodiscard]] std::uint64_t memory_needed(const plan::Plan& plan, const plan::Switches& control,
                                          const plan::Switches& treatment, const device::Choice& backend);

/// Makes the backend that is chosen, in whichever process. The program knows which ones it was built with.
using MakeBackend = std::function<std::unique_ptr<device::Backend>(const device::Choice&)>;

[[nodiscard]] plan::Plan make_plan(const BenchSpec& spec, const plan::Switches& switches);

/// Runs the trainer's side here and the generator as a child. Throws Error for anything that stops it; a
/// verification that finds differences is a result, not an error.
[[nodiscard]] BenchResult run_bench(const BenchSpec& spec, const MakeBackend& make_backend,
                                    const Progress& progress = {});

/// The generator's side, over the descriptor of its socket. Returns when the trainer says goodbye; throws
/// Error when the trainer is gone or sends something that cannot be accepted, after telling it why if it
/// still listens.
void run_generator(int fd, const MakeBackend& make_backend);

}  // namespace refit::run
