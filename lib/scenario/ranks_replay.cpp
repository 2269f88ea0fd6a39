// The part that many ranks replay.
#include "refit/scenario/ranks_replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ranks/rank.hpp"
#include "scenario/chooser.hpp"

namespace refit::scenario {
namespace {

class ManyRanks final : public Chooser {
 public:
  ManyRanks(const Scenario& scenario, const model::Inventory& model, const ReplayRequest& request,
            std::uint32_t sharing)
      : Chooser(scenario, model, request),
        ranks_(*scenario.ranks),
        processes_(ranks_.processes()),
        sharing_(ranks_.simulated ? 1
                 : sharing == 0   ? processes_
                                  : std::min(sharing, processes_)) {}

 private:
  [[nodiscard]] std::uint64_t memory_needed(const run::BenchSpec& bench) const override {
    const ranks::MemoryNeeded needed = ranks::memory_needed(ranks_spec(ranks_, bench));
    const std::uint64_t one_by_one = sharing_ * needed.largest_rank;
    // On the host ranks verify one after the other, on a GPU all at once.
    return bench.backend.kind == device::Kind::cpu ? std::min(needed.together, one_by_one) : one_by_one;
  }

  void add_costs(const run::BenchSpec& bench, Amounts& amounts) const override {
    const ranks::Spec spec = ranks_spec(ranks_, bench);
    const ranks::Setup setup(spec);
    const std::uint32_t first = ranks_.simulated.value_or(0);
    for (std::uint32_t process = first; process < (ranks_.simulated ? first + 1 : processes_); ++process) {
      if (const auto rank = setup.trainer_rank(process)) {
        for (const auto& extent : ranks::TrainerShare(setup.model, *setup.trainer, *rank).extents) {
          amounts.source_bytes += extent.bytes;
        }
      }
      if (const auto rank = setup.generator_rank(process)) {
        const ranks::GeneratorShare share(setup.model, *setup.generator, *rank, setup.request(0));
        amounts.destination_bytes += share.plan.destination_bytes;
      }
    }
    amounts.memory_needed = memory_needed(bench);
    amounts.control = arm_amounts(setup, 0);
    amounts.treatment = arm_amounts(setup, 1);
  }

  [[nodiscard]] static ArmAmounts arm_amounts(const ranks::Setup& setup, std::size_t arm) {
    const reshard::Reshard plan = setup.plan(arm, 0);
    ArmAmounts amounts{.wire_bytes = 0, .keys = plan.transfers, .buckets = plan.rounds};
    for (const reshard::RankTotals& trainer : plan.trainers) amounts.wire_bytes += trainer.remote_bytes;
    if (setup.broadcasts(arm)) amounts.wire_bytes *= setup.spec.processes() - 1;
    return amounts;
  }

  [[nodiscard]] model::Slice choose_slice() const override {
    std::uint64_t fewest = request_.layers, most = request_.layers;
    if (request_.layers == 0) {
      most = model_.dims.layers;
      const bool given = !ranks_.trainer.pp_layers.empty() || !ranks_.generator.pp_layers.empty();
      const std::uint64_t stages = std::max(ranks_.trainer.pp, ranks_.generator.pp);
      fewest = given ? most : std::min(most, std::max(fewest_layers(), stages));
    }
    const auto with_layers = [&](std::uint64_t layers) {
      return normal({.layers = layers, .experts = request_.experts, .vocab_rows = 0});
    };
    const std::uint64_t layers = largest(fewest, most, [&](std::uint64_t n) { return fits(with_layers(n)); });
    if (layers == 0) refuse_budget(with_layers(fewest));
    return with_layers(layers);
  }

  [[nodiscard]] std::string runner() const override {
    const std::string who = ranks_.simulated
                                ? fmt::format("the share of rank {} of {}", *ranks_.simulated, processes_)
                                : fmt::format("{} {}", processes_, processes_ == 1 ? "rank" : "ranks");
    return fmt::format(" on {}, {} to {}", who, reshard::to_string(ranks_.trainer),
                       reshard::to_string(ranks_.generator));
  }

  [[nodiscard]] std::string holders() const override {
    if (ranks_.simulated) return "in that one";
    return sharing_ == processes_ ? "in all of them together"
           : sharing_ == 1        ? "in each of them"
                                  : fmt::format("in the {} of them that share it", sharing_);
  }

  const Ranks& ranks_;
  std::uint32_t processes_, sharing_;
};

}  // namespace

std::uint32_t Ranks::processes() const {
  return ranks_spec(*this, {}).processes();
}

ranks::Spec ranks_spec(const Ranks& ranks, run::BenchSpec bench) {
  ranks::Spec spec;
  spec.bench = std::move(bench);
  spec.trainer = ranks.trainer;
  spec.generator = ranks.generator;
  spec.form = ranks.form;
  spec.colocated = ranks.colocated;
  spec.simulated_rank = ranks.simulated;
  spec.broadcast = ranks.broadcast;
  return spec;
}

Replay choose_ranks_replay(const Scenario& scenario, const model::Inventory& model,
                           const ReplayRequest& request, std::uint32_t sharing) {
  return ManyRanks(scenario, model, request, sharing).choose();
}

}  // namespace refit::scenario
