// From a scenario to loads, once; from loads, a platform and a stack to seconds, as often as one likes.
#include "refit/project/project.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "project/phases.hpp"
#include "project/ranks_replay.hpp"
#include "project/staged_replay.hpp"
#include "refit/base/error.hpp"
#include "refit/model/recipe.hpp"
#include "refit/reshard/summary.hpp"

namespace refit::project {
namespace {

struct ArmLoad {
  plan::Switches switches;
  std::variant<StagedLoad, RanksLoad> load;
  std::uint64_t buckets = 0;
  std::uint64_t floor_memory = 0, floor_peers = 0, floor_network = 0;  ///< bytes of the busiest rank
  std::uint64_t offload_bytes = 0;
};

std::string described(const scenario::Ranks& ranks) {
  return fmt::format("{} to {}, {}, {} processes", to_string(ranks.trainer), to_string(ranks.generator),
                     ranks.colocated ? "colocated" : "separate", ranks.processes());
}

Seconds with_interval(double seconds, const Stack& stack, std::string_view phase) {
  const auto error = stack.leave_out.find(std::string(phase));
  if (error == stack.leave_out.end()) return {seconds, std::nullopt, std::nullopt};
  return {seconds, seconds * std::exp(-error->second), seconds * std::exp(error->second)};
}

}  // namespace

struct Projector::State {
  const scenario::Scenario& scenario;
  std::optional<scenario::Ranks> cluster;
  std::vector<std::string> assumed;
  ArmLoad control, treatment;

  State(const scenario::Scenario& its_scenario, const model::Inventory& model, const Platform& platform,
        const Stack& stack, std::optional<bool> its_peer, Arms arms)
      : scenario(its_scenario),
        cluster(scenario.cluster ? scenario.cluster : scenario.ranks),
        peer_(its_peer) {
    if (!cluster) {
      assumed.push_back("No cluster is given: one trainer rank and one generator rank on one GPU.");
    } else if (scenario.cluster) {
      assumed.push_back(scenario.cluster_assumption);
    }
    if (cluster && !cluster->colocated && stack.exports_whole_model) {
      assumed.push_back(fmt::format(
          "Stack {} hands weights over on one GPU: its ranks are projected as if colocated.", stack.name));
    }
    if (!scenario.host_traffic_assumption.empty()) assumed.push_back(scenario.host_traffic_assumption);
    recipe_ = {scenario.recipe.value_or(model::default_recipe(model)), scenario.ignore};
    quantized_ = model::select_quantized(model, recipe_);
    if (cluster) {
      trainer_ = reshard::trainer_layout(model, cluster->trainer, cluster->form);
      generator_ = reshard::generator_layout(model, cluster->generator, quantized_);
    }
    control = load_of(model, scenario.control.switches, platform, stack);
    if (arms == Arms::both) treatment = load_of(model, scenario.treatment.switches, platform, stack);
  }

  ProjectedArm arm(const ArmLoad& load, bool is_control, const Platform& platform, const Stack& stack) const {
    ProjectedArm result;
    result.switches = load.switches;
    result.buckets = load.buckets;
    const Replayed replayed =
        std::visit([&](const auto& which) { return replay(which, platform, stack); }, load.load);
    result.slowest_rank = replayed.slowest_rank;
    for (std::size_t part = 0; part < kParts; ++part) {
      if (replayed.critical[part] > 0)
        result.critical.emplace(name_of(static_cast<Part>(part)), replayed.critical[part]);
    }
    result.floor_s = std::max({double(load.floor_memory) / platform.copy_rate(),
                               double(load.floor_peers) / platform.peer_rate(),
                               double(load.floor_network) / platform.network_rate()});
    result.transfer = with_interval(replayed.seconds, stack, kTransfer);
    const double link = platform.host_bandwidth.value;
    const bool pinned = load.switches.reference_swap == plan::ReferenceSwap::pinned;
    const double swap_share = pinned ? 1 : stack.pageable_share.figure.value;
    result.reference_swap_s = 2 * double(scenario.host_traffic.reference_swap_bytes) / (link * swap_share);
    const double beside = stack.seconds(Cost::prepare) * platform.host_cost.figure.value +
                          double(load.offload_bytes) / (link * stack.offload_share.figure.value);
    result.prepare = with_interval(replayed.seconds + beside, stack, kPrepare);
    result.step = step(result.prepare.s, is_control, stack);
    return result;
  }

 private:
  ArmLoad load_of(const model::Inventory& model, const plan::Switches& switches, const Platform& platform,
                  const Stack& stack) {
    plan::check_compatible(switches);
    ArmLoad arm;
    arm.switches = switches;
    arm.offload_bytes = switches.offload == plan::Offload::full ? scenario.host_traffic.offload_full_bytes
                                                                : scenario.host_traffic.offload_slim_bytes;
    const bool alone = !cluster || cluster->processes() == 1;
    if (alone || (stack.exports_whole_model && switches.pipeline == plan::Pipeline::staged)) {
      staged(model, switches, platform, arm);
    } else {
      on_ranks(model, switches, platform, arm);
    }
    return arm;
  }

  void staged(const model::Inventory& model, const plan::Switches& switches, const Platform& platform,
              ArmLoad& arm) const {
    plan::Request request;
    request.model = model;
    request.recipe = recipe_;
    request.moe_layout = scenario.moe_layout;
    request.quant = {switches.rounding, switches.zero_scale, switches.non_finite};
    request.router_bias_bf16 = switches.router_bias == plan::RouterBias::bf16;
    const plan::Plan plan = plan::build(request);
    std::optional<Gathering> gathering;
    if (trainer_ && cluster->processes() > 1) {
      gathering.emplace(Gathering{*trainer_, 0, static_cast<std::uint32_t>(platform.gpus_per_domain.value)});
    }
    StagedLoad load = staged_load(plan, switches, gathering ? &*gathering : nullptr);
    arm.buckets = load.buckets.size();
    arm.floor_memory = load.floor_bytes;
    for (const BucketLoad& bucket : load.buckets) {
      arm.floor_peers += bucket.peer_bytes;
      arm.floor_network += bucket.network_bytes;
    }
    arm.load = std::move(load);
  }

  void on_ranks(const model::Inventory& model, const plan::Switches& switches, const Platform& platform,
                ArmLoad& arm) const {
    const reshard::Options options{
        .colocated = cluster->colocated,
        .prequantize = switches.prequantize,
        .round_bytes = switches.bucket_bytes(),
        .stage_local = switches.pipeline == plan::Pipeline::staged,
        .gpus_per_node = static_cast<std::uint32_t>(platform.gpus_per_domain.value)};
    RanksLoad load;
    load.loads = reshard::loads(model, quantized_, *trainer_, *generator_, options);
    load.colocated = cluster->colocated;
    load.slots = switches.double_buffer ? 2 : 1;
    load.switches = switches;
    const bool reach = cluster->processes() <= static_cast<std::uint32_t>(platform.gpus_per_domain.value);
    load.peer = peer_.value_or(reach && switches.pipeline == plan::Pipeline::direct);
    arm.buckets = load.loads.rounds;
    const reshard::Loads& loads = load.loads;
    const auto busiest = [&](std::uint64_t memory, std::uint64_t near, std::uint64_t far) {
      arm.floor_memory = std::max(arm.floor_memory, memory);
      arm.floor_peers = std::max(arm.floor_peers, near);
      arm.floor_network = std::max(arm.floor_network, far);
    };
    // Each byte sent is read, each byte received is written, what stays is both.
    std::vector<std::uint64_t> memory(std::max(loads.trainers, loads.generators));
    for (std::uint32_t r = 0; r < loads.trainers; ++r) {
      std::uint64_t near = 0, far = 0;
      for (std::uint32_t round = 0; round < loads.rounds; ++round) {
        const reshard::SendLoad& send = loads.send(round, r);
        near += send.host_bytes;
        far += send.network_bytes;
        memory[r] += send.pack_bytes - send.host_bytes - send.network_bytes;
      }
      busiest(memory[r], near, far);
    }
    for (std::uint32_t r = 0; r < loads.generators; ++r) {
      std::uint64_t near = 0, far = 0, bytes = cluster->colocated ? memory[r] : 0;
      for (std::uint32_t round = 0; round < loads.rounds; ++round) {
        const reshard::ReceiveLoad& receive = loads.receive(round, r);
        near += receive.host_bytes;
        far += receive.network_bytes;
        bytes += receive.host_bytes + receive.network_bytes + receive.own_bytes;
      }
      busiest(bytes, near, far);
    }
    arm.load = std::move(load);
  }

  /// The published phases that a refit does not touch, and what is projected of the one that it is.
  [[nodiscard]] std::optional<Seconds> step(double prepare_s, bool is_control, const Stack& stack) const {
    const std::optional<double> step = published_seconds(scenario, kStep, is_control);
    const std::optional<double> total = published_seconds(scenario, kPrepare, is_control);
    if (!step || !total) return std::nullopt;
    return with_interval(*step - *total + prepare_s, stack, kStep);
  }

  std::optional<bool> peer_;
  model::Recipe recipe_;
  std::vector<bool> quantized_;
  std::unique_ptr<reshard::Layout> trainer_, generator_;
};

Projector::Projector(const scenario::Scenario& scenario, const model::Inventory& model,
                     const Platform& platform, const Stack& stack, std::optional<bool> peer, Arms arms)
    : state_(std::make_unique<State>(scenario, model, platform, stack, peer, arms)) {}
Projector::~Projector() = default;
Projector::Projector(Projector&&) noexcept = default;

ProjectedArm Projector::arm(bool control, const Platform& platform, const Stack& stack) const {
  return state_->arm(control ? state_->control : state_->treatment, control, platform, stack);
}

const std::vector<std::string>& Projector::assumed() const noexcept {
  return state_->assumed;
}

Projection Projector::run(const Platform& platform, const Stack& stack) const {
  Projection projection{.platform = platform,
                        .stack = stack,
                        .cluster = state_->cluster ? described(*state_->cluster) : "one GPU",
                        .assumed = state_->assumed,
                        .control = {},
                        .treatment = {}};
  projection.control = arm(true, platform, stack);
  projection.treatment = arm(false, platform, stack);
  return projection;
}

Projection project(const scenario::Scenario& scenario, const model::Inventory& model,
                   const Platform& platform, const Stack& stack) {
  return Projector(scenario, model, platform, stack).run(platform, stack);
}

}  // namespace refit::project
