// What every choice of a part has in common: the spec of its run, what it amounts to, what is said of it.
#include "scenario/chooser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "refit/base/bytes.hpp"
#include "refit/base/error.hpp"
#include "refit/plan/wire.hpp"

namespace refit::scenario {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kSmallestScaledBuffer = 16 * kMiB;
constexpr std::uint64_t kLayersOfEachClass = 2;

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

}  // namespace

Chooser::Chooser(const Scenario& scenario, const model::Inventory& model, const ReplayRequest& request)
    : scenario_(scenario), model_(model), request_(request) {
  budget_ = request.memory_budget > 0 ? request.memory_budget : default_memory_budget();
  row_bytes_ = largest_row(model);
  model_bytes_ = model.bytes();
}

Replay Chooser::choose() const {
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

void Chooser::check_request() const {
  if (request_.layers > model_.dims.layers) {
    fail_input(fmt::format("{} layers were asked for, and {} has {}", request_.layers, scenario_.name,
                           model_.dims.layers));
  }
  if (request_.experts > model_.dims.experts) {
    fail_input(fmt::format("{} routed experts of each layer were asked for, and {} has {}", request_.experts,
                           scenario_.name, model_.dims.experts));
  }
}

/// Everything about a run of the part, but how many steps.
run::BenchSpec Chooser::spec_of(const model::Slice& part) const {
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

std::uint64_t Chooser::largest(std::uint64_t low, std::uint64_t high,
                               const std::function<bool(std::uint64_t)>& fits) {
  if (low > high || !fits(low)) return 0;
  if (fits(high)) return high;
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

model::Slice Chooser::normal(model::Slice part) const {
  if (part.layers == model_.dims.layers) part.layers = 0;
  if (part.experts == model_.dims.experts) part.experts = 0;
  if (part.vocab_rows == model_.dims.vocab) part.vocab_rows = 0;
  return part;
}

std::uint64_t Chooser::fewest_layers() const {
  std::uint64_t layers = 0;
  for (const auto& members : model::layer_classes(model_)) {
    layers += std::min<std::uint64_t>(kLayersOfEachClass, members.size());
  }
  return layers;
}

void Chooser::refuse_budget(const model::Slice& smallest) const {
  const model::Inventory part = model::slice(model_, smallest);
  fail_input(fmt::format(
      "the memory budget of {} holds no replay of {}{}: the smallest, {}, {} embedding rows, needs {} {}; "
      "raise the memory budget or choose a smaller buffer_size",
      format_bytes(budget_), scenario_.name, runner(), layers_and_experts(part), part.dims.vocab,
      format_bytes(memory_needed(spec_of(smallest))), holders()));
}

std::string Chooser::layers_and_experts(const model::Inventory& part) const {
  std::string text = fmt::format("{} of {} layers", part.dims.layers, model_.dims.layers);
  if (!model_.moe()) return text;
  return part.dims.experts == model_.dims.experts
             ? fmt::format("{}, all {} experts", text, part.dims.experts)
             : fmt::format("{}, {} of {} experts", text, part.dims.experts, model_.dims.experts);
}

/// Short enough for one line wherever only layers and experts are cut.
std::string Chooser::sentence(const Replay& replay) const {
  if (!replay.cut()) {
    return fmt::format("{}: replays the whole model, {} in {} tensors{}.", scenario_.name,
                       format_bytes(replay.whole.bytes), replay.whole.tensors, runner());
  }
  const model::Inventory part = model::slice(model_, replay.spec.slice);
  const std::string rest =
      part.dims.vocab == model_.dims.vocab
          ? "embeddings, norms, head"
          : fmt::format("norms, {} of {} rows of embeddings and head", part.dims.vocab, model_.dims.vocab);
  return fmt::format("{}: replays {}, {}: {:.1f} % of {}{}.", scenario_.name, layers_and_experts(part), rest,
                     100 * replay.fraction(), format_bytes(replay.whole.bytes), runner());
}

Amounts Chooser::amounts(const run::BenchSpec& spec) const {
  const model::Inventory part = model::slice(model_, spec.slice);
  const std::vector<bool> quantized = model::select_quantized(part, spec.recipe);
  Amounts result;
  result.layers = part.dims.layers;
  result.experts = part.dims.experts;
  result.vocab_rows = part.dims.vocab;
  result.tensors = part.tensors.size();
  result.parameters = part.parameters();
  result.bytes = part.bytes();
  result.expert_bytes = part.expert_bytes();
  result.quantized_tensors = static_cast<std::uint64_t>(std::count(quantized.begin(), quantized.end(), true));
  add_costs(spec, result);
  return result;
}

}  // namespace refit::scenario
