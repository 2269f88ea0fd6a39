// Which part of a scenario's model many ranks replay, and the run of all of them.
#pragma once

#include <cstdint>

#include "refit/model/inventory.hpp"
#include "refit/ranks/ranks.hpp"
#include "refit/run/bench.hpp"
#include "refit/scenario/replay.hpp"
#include "refit/scenario/scenario.hpp"

namespace refit::scenario {

/// A bench of these ranks. `bench` is Replay::spec, with how long and how carefully to run.
[[nodiscard]] ranks::Spec ranks_spec(const Ranks& ranks, run::BenchSpec bench);

/// As choose_replay, for scenario.ranks, which is there: the largest number of whole layers within the
/// budget, with all experts unless the request says how many. Never fewer layers than a pipeline has stages;
/// all of them where pp-layers says which stage has which. Every rank that gives the same arguments gets the
/// same answer, so the budget has to be one that they have agreed on.
///
/// `sharing`: how many ranks live on the memory that the budget is of: those of one host, on GPUs those of
/// one GPU; 0: all.
///
/// Amounts are of all ranks together: wire_bytes cross between processes, keys are boxes (what stays in its
/// process, too), buckets are rounds; memory_needed is of the ranks that share. Error(input): what a layout,
/// ranks::run_bench or plan::build refuses, and a budget that nothing fits, with the numbers.
[[nodiscard]] Replay choose_ranks_replay(const Scenario& scenario, const model::Inventory& model,
                                         const ReplayRequest& request, std::uint32_t sharing = 0);

}  // namespace refit::scenario
