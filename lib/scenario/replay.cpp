// Choosing the part of a model that fits the memory budget. Everything is measured on plans, before any
// tensor exists.
#include "refit/scenario/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "refit/base/bytes.hpp"
#include "refit/base/error.hpp"
#include "refit/plan/wire.hpp"
#include "refit/transport/shared_memory.hpp"

namespace refit::scenario {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kLargestDefaultBudget = std::uint64_t{7} << 30;
constexpr std::uint64_t kSmallestScaledBuffer = 16 * kMiB;
constexpr std::uint64_t kFewestVocabRows = 128;
constexpr std::uint64_t kLayersOfEachClass = 2;

/// The largest n in [low, high] for which `fits`, or 0. A larger n never fits where a smaller one does not.
std::uint64_t largest(std::uint64_t low, std::uint64_t high, const std::function<bool(std::uint64_t)>& fits) {
  if (low > high || !fits(low)) return 0;
  if (fits(high)) return high;
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

/// The plan is the same for both arms unless they write different bytes.
bool same_plan(const plan::Switches& a, const plan::Switches& b) {
  return a.rounding == b.rounding && a.zero_scale == b.zero_scale && a.router_bias == b.router_bias;
}

std::uint64_t largest_row(const model::Inventory& model) {
  std::uint64_t bytes = 0;
  for (const model::Tensor& tensor : model.tensors) {
    bytes = std::max(bytes, tensor.spec.cols() * size_of(tensor.spec.dtype));
  }
  return bytes;
}

/// buffer_size in proportion to the bytes replayed, in whole MiB; a bucket still holds the largest row.
std::uint64_t scaled_buffer(std::uint64_t whole, double fraction, std::uint64_t row_bytes) {
  const auto proportional = static_cast<std::uint64_t>(std::ceil(static_cast<double>(whole) * fraction));
  const std::uint64_t least = std::max(kSmallestScaledBuffer, 2 * align_up(row_bytes, plan::kWireAlignment));
  return std::min(whole, align_up(std::max(proportional, least), kMiB));
}

std::uint64_t scaled_bytes(std::uint64_t whole, double fraction) {
  return static_cast<std::uint64_t>(std::llround(static_cast<double>(whole) * fraction));
}

class Chooser {
 public:
  Chooser(const Scenario& scenario, const model::Inventory& model, const ReplayRequest& request)
      : scenario_(scenario), model_(model), request_(request) {
    budget_ = request.memory_budget > 0 ? request.memory_budget : default_memory_budget();
    row_bytes_ = largest_row(model);
    model_bytes_ = model.bytes();
  }

  [[nodiscard]] Replay choose() const {
    check_request();
    plan::check_compatible(scenario_.control.switches);
    plan::check_compatible(scenario_.treatment.switches);
    Replay replay;
    replay.memory_budget = budget_;
    // First, so that what is wrong with the whole model is refused even where only a sound part would be
    // replayed.
    replay.whole = amounts(spec_of({}));
    replay.spec = spec_of(choose_slice());
    replay.part = replay.cut() ? amounts(replay.spec) : replay.whole;
    replay.buffers_scaled = replay.spec.control.buffer_size != scenario_.control.switches.buffer_size ||
                            replay.spec.treatment.buffer_size != scenario_.treatment.switches.buffer_size;
    replay.sentence = sentence(replay);
    return replay;
  }

 private:
  void check_request() const {
    if (request_.layers > model_.dims.layers) {
      fail_input(fmt::format("{} layers were asked for, and {} has {}", request_.layers, scenario_.name,
                             model_.dims.layers));
    }
    if (request_.experts > model_.dims.experts) {
      fail_input(fmt::format("{} routed experts of each layer were asked for, and {} has {}",
                             request_.experts, scenario_.name, model_.dims.experts));
    }
  }

  /// Everything about a run of the part, but how many steps.
  [[nodiscard]] run::BenchSpec spec_of(const model::Slice& part) const {
    run::BenchSpec spec;
    spec.config_json = scenario_.config_json;
    spec.config_place = scenario_.config_place;
    spec.slice = part;
    spec.recipe = {scenario_.recipe.value_or(model::default_recipe(model_)), scenario_.ignore};
    spec.moe_layout = scenario_.moe_layout;
    spec.backend = request_.backend;
    spec.control = scenario_.control.switches;
    spec.treatment = scenario_.treatment.switches;
    spec.host_traffic = scenario_.host_traffic;
    if (part.whole()) return spec;
    const double fraction =
        static_cast<double>(model::slice(model_, part).bytes()) / static_cast<double>(model_bytes_);
    if (!scenario_.control.buffer_size_fixed) {
      spec.control.buffer_size = scaled_buffer(spec.control.buffer_size, fraction, row_bytes_);
    }
    if (!scenario_.treatment.buffer_size_fixed) {
      spec.treatment.buffer_size = scaled_buffer(spec.treatment.buffer_size, fraction, row_bytes_);
    }
    run::HostTraffic& host = spec.host_traffic;
    host.offload_full_bytes = scaled_bytes(host.offload_full_bytes, fraction);
    host.offload_slim_bytes = scaled_bytes(host.offload_slim_bytes, fraction);
    host.reference_swap_bytes = scaled_bytes(host.reference_swap_bytes, fraction);
    return spec;
  }

  [[nodiscard]] std::uint64_t memory_needed(const model::Slice& part) const {
    const run::BenchSpec spec = spec_of(part);
    return run::memory_needed(run::make_plan(spec, spec.control), spec.control, spec.treatment, spec.backend);
  }

  [[nodiscard]] bool fits(const model::Slice& part) const { return memory_needed(part) <= budget_; }

  /// A slice that keeps everything is the whole model.
  [[nodiscard]] model::Slice normal(model::Slice part) const {
    if (part.layers == model_.dims.layers) part.layers = 0;
    if (part.experts == model_.dims.experts) part.experts = 0;
    if (part.vocab_rows == model_.dims.vocab) part.vocab_rows = 0;
    return part;
  }

  [[nodiscard]] std::uint64_t fewest_layers() const {
    std::uint64_t layers = 0;
    for (const auto& members : model::layer_classes(model_)) {
      layers += std::min<std::uint64_t>(kLayersOfEachClass, members.size());
    }
    return layers;
  }

  [[nodiscard]] model::Slice choose_slice() const {
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

  [[noreturn]] void refuse_budget(const model::Slice& smallest) const {
    const model::Inventory part = model::slice(model_, smallest);
    fail_input(fmt::format(
        "the memory budget of {} holds no replay of {}: the smallest, {}, {} embedding rows, needs {} in "
        "both processes together; raise the memory budget or choose a smaller buffer_size",
        format_bytes(budget_), scenario_.name, layers_and_experts(part), part.dims.vocab,
        format_bytes(memory_needed(smallest))));
  }

  [[nodiscard]] std::string layers_and_experts(const model::Inventory& part) const {
    std::string text = fmt::format("{} of {} layers", part.dims.layers, model_.dims.layers);
    if (!model_.moe()) return text;
    return part.dims.experts == model_.dims.experts
               ? fmt::format("{}, all {} experts", text, part.dims.experts)
               : fmt::format("{}, {} of {} experts", text, part.dims.experts, model_.dims.experts);
  }

  /// Short enough for one line wherever only layers and experts are cut.
  [[nodiscard]] std::string sentence(const Replay& replay) const {
    if (!replay.cut()) {
      return fmt::format("{}: replays the whole model, {} in {} tensors.", scenario_.name,
                         format_bytes(replay.whole.bytes), replay.whole.tensors);
    }
    const model::Inventory part = model::slice(model_, replay.spec.slice);
    const std::string rest =
        part.dims.vocab == model_.dims.vocab
            ? "embeddings, norms, head"
            : fmt::format("norms, {} of {} rows of embeddings and head", part.dims.vocab, model_.dims.vocab);
    return fmt::format("{}: replays {}, {}: {:.1f} % of {}.", scenario_.name, layers_and_experts(part), rest,
                       100 * replay.fraction(), format_bytes(replay.whole.bytes));
  }

  [[nodiscard]] static ArmAmounts arm_amounts(const plan::Plan& plan, const plan::Switches& switches) {
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

  [[nodiscard]] Amounts amounts(const run::BenchSpec& spec) const {
    const model::Inventory part = model::slice(model_, spec.slice);
    const plan::Plan plan = run::make_plan(spec, spec.control);
    const std::vector<bool> quantized = model::select_quantized(part, spec.recipe);
    Amounts result;
    result.layers = part.dims.layers;
    result.experts = part.dims.experts;
    result.vocab_rows = part.dims.vocab;
    result.tensors = part.tensors.size();
    result.parameters = part.parameters();
    result.bytes = part.bytes();
    result.expert_bytes = part.expert_bytes();
    result.quantized_tensors =
        static_cast<std::uint64_t>(std::count(quantized.begin(), quantized.end(), true));
    result.source_bytes = plan.source_bytes;
    result.destination_bytes = plan.destination_bytes;
    result.memory_needed = run::memory_needed(plan, spec.control, spec.treatment, spec.backend);
    result.control = arm_amounts(plan, spec.control);
    result.treatment =
        arm_amounts(same_plan(spec.control, spec.treatment) ? plan : run::make_plan(spec, spec.treatment),
                    spec.treatment);
    return result;
  }

  const Scenario& scenario_;
  const model::Inventory& model_;
  const ReplayRequest& request_;
  std::uint64_t budget_ = 0, row_bytes_ = 0, model_bytes_ = 0;
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
  return Chooser(scenario, model, request).choose();
}

}  // namespace refit::scenario
