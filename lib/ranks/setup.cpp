// Model, layouts and plans: the same on every rank.
#include <algorithm>

#include "ranks/rank.hpp"
#include "ranks/simulated.hpp"
#include "refit/model/recipe.hpp"

namespace refit::ranks {

std::uint32_t Spec::processes() const noexcept {
  return colocated ? std::max(trainer.ranks(), generator.ranks()) : trainer.ranks() + generator.ranks();
}

Setup::Setup(const Spec& its_spec)
    : spec(its_spec),
      model(model::slice(model::parse_inventory(spec.bench.config_json, spec.bench.config_place),
                         spec.bench.slice)),
      quantized(model::select_quantized(model, spec.bench.recipe)),
      trainer(reshard::trainer_layout(model, spec.trainer, spec.form)),
      generator(reshard::generator_layout(model, spec.generator, quantized)),
      everything(spec.broadcast ? reshard::generator_layout(model, {}, quantized) : nullptr),
      processes{spec.colocated, trainer->ranks()} {
  for (const plan::Switches* each : {&spec.bench.control, &spec.bench.treatment})
    plan::check_compatible(*each);
}

plan::Request Setup::request(std::size_t arm) const {
  const plan::Switches& how = switches(arm);
  plan::Request request;
  request.recipe = spec.bench.recipe;
  request.moe_layout = spec.bench.moe_layout;
  request.quant = {how.rounding, how.zero_scale, how.non_finite};
  request.router_bias_bf16 = how.router_bias == plan::RouterBias::bf16;
  return request;
}

std::optional<std::uint32_t> Setup::trainer_rank(std::uint32_t process) const {
  if (process < trainer->ranks()) return process;
  return std::nullopt;
}

std::optional<std::uint32_t> Setup::generator_rank(std::uint32_t process) const {
  const std::uint32_t first = spec.colocated ? 0 : trainer->ranks();
  if (process >= first && process - first < generator->ranks()) return process - first;
  return std::nullopt;
}

reshard::Reshard Setup::plan(std::size_t arm, std::uint32_t process) const {
  const plan::Switches& how = switches(arm);
  reshard::Options options{.colocated = spec.colocated,
                           .prequantize = how.prequantize,
                           .round_bytes = how.bucket_bytes(),
                           .stage_local = how.pipeline == plan::Pipeline::staged,
                           .gpus_per_node = spec.gpus_per_node};
  if (!broadcasts(arm)) {
    return reshard::reshard(model, quantized, *trainer, *generator, options, trainer_rank(process),
                            generator_rank(process));
  }
  options.colocated = false;  // who wants everything is nobody in particular
  return reshard::reshard(model, quantized, *trainer, *everything, options, trainer_rank(process), 0);
}

std::vector<Round> Setup::rounds(std::size_t arm, const reshard::Reshard& plan, std::uint32_t process) const {
  if (broadcasts(arm)) return broadcast_rounds_of(plan, model, process, spec.processes());
  return rounds_of(plan, model, processes, switches(arm).pipeline == plan::Pipeline::staged);
}

namespace {

/// What one process holds, and what it verifies against.
struct Held {
  std::uint64_t bytes = 0, reference = 0;
};

Held held_by(const Setup& setup, std::uint32_t process) {
  Held held;
  if (const auto rank = setup.trainer_rank(process)) {
    held.bytes += TrainerShare(setup.model, *setup.trainer, *rank).arena_bytes;
  }
  if (const auto rank = setup.generator_rank(process)) {
    const GeneratorShare share(setup.model, *setup.generator, *rank, setup.request(0));
    held.bytes += share.plan.destination_arena_bytes;
    if (setup.spec.bench.verify != run::VerifyWhen::off) held.reference = share.plan.source_arena_bytes;
  }
  std::uint64_t synthesised = 0;
  for (const std::size_t arm : {0, 1}) {
    const reshard::Reshard plan = setup.plan(arm, process);
    const std::vector<Round> rounds = setup.rounds(arm, plan, process);
    const RoundSizes sizes = largest(rounds);
    // Scales in canonical order and rows that wait for their columns: less than what came.
    held.bytes += 2 * (sizes.send + sizes.receive) + sizes.receive;
    if (setup.spec.simulated_rank) {
      synthesised = std::max(synthesised, SimulatedPeers::memory_needed(rounds, setup.model));
    }
  }
  // What peers send is there while a refit runs, the reference when it is judged.
  held.reference = std::max(held.reference, synthesised);
  return held;
}

}  // namespace

MemoryNeeded memory_needed(const Spec& spec) {
  const Setup setup(spec);
  MemoryNeeded needed;
  std::uint64_t largest_reference = 0;
  const std::uint32_t first = spec.simulated_rank.value_or(0);
  const std::uint32_t end = spec.simulated_rank ? first + 1 : spec.processes();
  for (std::uint32_t process = first; process < end; ++process) {
    const Held held = held_by(setup, process);
    needed.together += held.bytes;
    needed.largest_rank = std::max(needed.largest_rank, held.bytes + held.reference);
    largest_reference = std::max(largest_reference, held.reference);
  }
  needed.together += largest_reference;
  return needed;
}

}  // namespace refit::ranks
