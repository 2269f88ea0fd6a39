// The part that one trainer rank and one generator rank replay.
#include "refit/scenario/replay.hpp"

#include <algorithm>

#include "refit/plan/wire.hpp"
#include "refit/transport/shared_memory.hpp"
#include "scenario/chooser.hpp"

namespace refit::scenario {
namespace {

constexpr std::uint64_t kLargestDefaultBudget = std::uint64_t{7} << 30;
constexpr std::uint64_t kFewestVocabRows = 128;

/// The plan is the same for both arms unless they write different bytes.
bool same_plan(const plan::Switches& a, const plan::Switches& b) {
  return a.rounding == b.rounding && a.zero_scale == b.zero_scale && a.router_bias == b.router_bias;
}

ArmAmounts arm_amounts(const plan::Plan& plan, const plan::Switches& switches) {
  ArmAmounts arm;
  if (switches.pipeline == plan::Pipeline::direct) {
    // Nothing travels through buckets: the sender writes the engine's bytes themselves.
    arm.wire_bytes = plan.destination_bytes;
    arm.keys = static_cast<std::uint64_t>(
        std::count_if(plan.segments.begin(), plan.segments.end(),
                      [](const plan::Segment& segment) { return segment.op != plan::Op::zero; }));
    return arm;
  }
  const plan::Wire wire = plan::make_wire(plan, switches.prequantize, switches.bucket_bytes());
  arm.wire_bytes = wire.bytes;
  arm.keys = wire.entries.size();
  arm.buckets = wire.buckets.size();
  return arm;
}

class OneRank final : public Chooser {
 public:
  using Chooser::Chooser;

 private:
  [[nodiscard]] std::uint64_t memory_needed(const run::BenchSpec& spec) const override {
    return run::memory_needed(run::make_plan(spec, spec.control), spec.control, spec.treatment, spec.backend);
  }

  void add_costs(const run::BenchSpec& spec, Amounts& amounts) const override {
    const plan::Plan plan = run::make_plan(spec, spec.control);
    amounts.source_bytes = plan.source_bytes;
    amounts.destination_bytes = plan.destination_bytes;
    amounts.memory_needed = run::memory_needed(plan, spec.control, spec.treatment, spec.backend);
    amounts.control = arm_amounts(plan, spec.control);
    amounts.treatment =
        arm_amounts(same_plan(spec.control, spec.treatment) ? plan : run::make_plan(spec, spec.treatment),
                    spec.treatment);
  }

  [[nodiscard]] model::Slice choose_slice() const override {
    const std::uint64_t fewest = request_.layers > 0 ? request_.layers : fewest_layers();
    const std::uint64_t most = request_.layers > 0 ? request_.layers : model_.dims.layers;
    const auto with_layers = [&](std::uint64_t layers) {
      return normal({.layers = layers, .experts = request_.experts, .vocab_rows = 0});
    };
    const std::uint64_t layers = largest(fewest, most, [&](std::uint64_t n) { return fits(with_layers(n)); });
    if (layers > 0) return with_layers(layers);

    model::Slice part = with_layers(fewest);
    if (request_.experts == 0 && model_.moe()) {
      const auto with_experts = [&](std::uint64_t experts) {
        return normal({.layers = part.layers, .experts = experts, .vocab_rows = 0});
      };
      const std::uint64_t experts =
          largest(1, model_.dims.experts, [&](std::uint64_t n) { return fits(with_experts(n)); });
      if (experts > 0) return with_experts(experts);
      part = with_experts(1);
    }
    const auto with_vocab = [&](std::uint64_t rows) {
      return normal({.layers = part.layers, .experts = part.experts, .vocab_rows = rows});
    };
    const std::uint64_t fewest_rows = std::min(kFewestVocabRows, model_.dims.vocab);
    const std::uint64_t rows =
        largest(fewest_rows, model_.dims.vocab, [&](std::uint64_t n) { return fits(with_vocab(n)); });
    if (rows > 0) return with_vocab(rows);
    refuse_budget(with_vocab(fewest_rows));
  }

  [[nodiscard]] std::string runner() const override { return ""; }
  [[nodiscard]] std::string holders() const override { return "in both processes together"; }
};

}  // namespace

std::uint64_t default_memory_budget() {
  return std::min(transport::available_memory() / 2, kLargestDefaultBudget);
}

double Replay::fraction() const noexcept {
  return whole.bytes == 0 ? 1 : static_cast<double>(part.bytes) / static_cast<double>(whole.bytes);
}

double Replay::extrapolation() const noexcept {
  return part.floor_bytes() == 0
             ? 1
             : static_cast<double>(whole.floor_bytes()) / static_cast<double>(part.floor_bytes());
}

Replay choose_replay(const Scenario& scenario, const model::Inventory& model, const ReplayRequest& request) {
  return OneRank(scenario, model, request).choose();
}

}  // namespace refit::scenario
