// What many ranks replay: a part that fits, whose planned amounts are those that a run of threads measures.
#include "refit/scenario/ranks_replay.hpp"

#include <filesystem>
#include <string>

#include "refit/base/error.hpp"
#include "refit/transport/group.hpp"
#include "support/catch.hpp"
#include "support/error_of.hpp"

using namespace refit;
using namespace refit::scenario;
namespace fs = std::filesystem;

namespace {

const fs::path kShipped = fs::path(REFIT_TESTS_DIR).parent_path() / "scenarios";
constexpr std::uint64_t kGiB = 1u << 30;

Scenario shipped(const std::string& name) {
  return load_scenario(kShipped / (name + ".json"));
}

/// tiny-moe-ep4 with other sizes.
Scenario tiny(const std::string& train, const std::string& gen) {
  Scenario scenario = shipped("tiny-moe-ep4");
  scenario.ranks->trainer = reshard::parse_parallelism(train, reshard::Side::trainer);
  scenario.ranks->generator = reshard::parse_parallelism(gen, reshard::Side::generator);
  return scenario;
}

Replay replay_of(const Scenario& scenario, const ReplayRequest& request, std::uint32_t sharing = 0) {
  return choose_ranks_replay(scenario, model::parse_inventory(scenario.config_json, scenario.config_place),
                             request, sharing);
}

ranks::Result bench(const Scenario& scenario, const Replay& replay) {
  ranks::Spec spec = ranks_spec(*scenario.ranks, replay.spec);
  spec.bench.host_traffic = {};
  spec.bench.steps = 1;
  spec.bench.warmup = 0;
  spec.bench.verify = run::VerifyWhen::every;
  spec.bench.measure_copy = false;
  ranks::Result result;
  transport::run_thread_ranks(spec.processes(), [&](transport::ThreadRank& rank) {
    ranks::Result own = ranks::run_bench(spec, *rank.group, *rank.exchange,
                                         [](const device::Choice&) { return device::make_host_backend(1); });
    if (rank.group->rank() == 0) result = std::move(own);
  });
  return result;
}

std::string refusal(const Scenario& scenario, const ReplayRequest& request, std::uint32_t sharing = 0) {
  try {
    (void)replay_of(scenario, request, sharing);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("the shipped scenarios of many ranks move what their replay says, and every byte arrives") {
  for (const char* name : {"tiny-moe-ep4", "tiny-moe-ep4-ep4"}) {
    const Scenario scenario = shipped(name);
    const Replay replay = replay_of(scenario, {.memory_budget = kGiB});
    CAPTURE(name, replay.sentence);
    CHECK_FALSE(replay.cut());
    CHECK(scenario.ranks->processes() == 4);
    const ranks::Result result = bench(scenario, replay);
    CHECK(result.bench.source_bytes == replay.part.source_bytes);
    CHECK(result.bench.destination_bytes == replay.part.destination_bytes);
    for (const auto& [planned, arm] : {std::pair{&replay.part.control, &result.bench.control},
                                       std::pair{&replay.part.treatment, &result.bench.treatment}}) {
      CHECK(arm->verdict.passed());
      CHECK(arm->verified_refits == 1);
      CHECK(arm->wire_bytes == planned->wire_bytes);
      CHECK(arm->buckets == planned->buckets);
      CHECK(planned->buckets >= 3);
      CHECK(planned->keys > 100);
      CHECK((planned->wire_bytes == 0) == (std::string(name) == "tiny-moe-ep4-ep4"));
    }
    std::uint64_t extra = 0;
    for (const ranks::RankRow& row : result.ranks) {
      extra += row.control.most_extra_bytes + row.treatment.most_extra_bytes;
    }
    CHECK(replay.part.floor_bytes() + extra <= replay.part.memory_needed);
  }
}

TEST_CASE("the sentence says which ranks replay what") {
  const Scenario scenario = shipped("tiny-moe-ep4");
  const std::string whole = replay_of(scenario, {.memory_budget = kGiB}).sentence;
  CHECK(contains(whole, "tiny-moe-ep4: replays the whole model, "));
  CHECK(contains(whole, " on 4 ranks, dp=4,ep=4 to tp=2,dp=2,etp=2."));
  const std::string part = replay_of(scenario, {.layers = 3, .memory_budget = kGiB}).sentence;
  CHECK(contains(part, "replays 3 of 4 layers, all 8 experts, embeddings, norms, head: "));
  CHECK(contains(part, " on 4 ranks, dp=4,ep=4 to tp=2,dp=2,etp=2."));
}

TEST_CASE("many ranks replay as many whole layers as fit, and what fits nowhere is refused with numbers") {
  const Scenario scenario = shipped("tiny-moe-ep4");
  const Replay whole = replay_of(scenario, {.memory_budget = kGiB});
  const std::uint64_t needed = whole.part.memory_needed;
  CHECK_FALSE(replay_of(scenario, {.memory_budget = needed}).cut());

  const Replay part = replay_of(scenario, {.memory_budget = needed - 1});
  CHECK(part.part.layers == 3);  // the dense one, and two of the three with experts
  CHECK(part.part.experts == 8);
  CHECK(part.part.memory_needed < needed);
  CHECK(part.whole.memory_needed == needed);
  CHECK(part.extrapolation() > 1);
  CHECK(part.spec.host_traffic.offload_full_bytes < scenario.host_traffic.offload_full_bytes);

  const std::string message = refusal(scenario, {.memory_budget = part.part.memory_needed - 1});
  CHECK(contains(
      message,
      "holds no replay of tiny-moe-ep4 on 4 ranks, dp=4,ep=4 to tp=2,dp=2,etp=2: the smallest, 3 of "));
  CHECK(contains(message, "in all of them together; raise the memory budget"));
}

TEST_CASE("a budget may be of some of the ranks, or of each of them") {
  const Scenario scenario = shipped("tiny-moe-ep4");
  const std::uint64_t all = replay_of(scenario, {.memory_budget = kGiB}).part.memory_needed;
  const std::uint64_t two = replay_of(scenario, {.memory_budget = kGiB}, 2).part.memory_needed;
  const std::uint64_t one = replay_of(scenario, {.memory_budget = kGiB}, 1).part.memory_needed;
  CHECK(one < two);
  CHECK(two == 2 * one);
  CHECK(two < all);
  CHECK(replay_of(scenario, {.memory_budget = kGiB}, 64).part.memory_needed == all);
  CHECK_FALSE(replay_of(scenario, {.memory_budget = one}, 1).cut());
  CHECK(contains(refusal(scenario, {.memory_budget = 1}, 1), "in each of them;"));
  CHECK(contains(refusal(scenario, {.memory_budget = 1}, 2), "in the 2 of them that share it;"));

  // Ranks that share a GPU verify at the same time.
  ReplayRequest gpu{.memory_budget = kGiB};
  gpu.backend.kind = device::Kind::cuda;
  CHECK(replay_of(scenario, gpu).part.memory_needed == 4 * one);
}

TEST_CASE("a pipeline has no fewer layers than stages, and those that pp-layers names are all kept") {
  const std::uint64_t needed = replay_of(tiny("pp=4", "dp=4"), {.memory_budget = kGiB}).part.memory_needed;
  CHECK(
      contains(refusal(tiny("pp=4", "dp=4"), {.memory_budget = needed - 1}), "the smallest, 4 of 4 layers"));
  const Scenario named = tiny("pp=2,pp-layers=1:3", "dp=2");
  CHECK(replay_of(named, {.memory_budget = kGiB}).part.layers == 4);
  CHECK(contains(refusal(named, {.layers = 3, .memory_budget = kGiB}), "pp-layers"));
}

TEST_CASE("sizes that do not go with the model are refused whatever would be replayed") {
  CHECK(contains(refusal(tiny("ep=3", "dp=3"), {.memory_budget = kGiB}), "ep=3"));
  CHECK(contains(refusal(tiny("ep=4", "tp=2,dp=2"), {.experts = 6, .memory_budget = kGiB}), "ep=4"));
  Scenario megatron = tiny("fsdp=4", "dp=4");
  CHECK(contains(refusal(megatron, {.memory_budget = kGiB}), "fsdp=4"));
  megatron.ranks->form = reshard::TrainerForm::hf;
  CHECK(refusal(megatron, {.memory_budget = kGiB}) == "");
}

TEST_CASE("ranks of their own for the generator are processes of their own") {
  Scenario scenario = tiny("ep=4", "tp=2");
  CHECK(scenario.ranks->processes() == 4);
  scenario.ranks->colocated = false;
  CHECK(scenario.ranks->processes() == 6);
  const ranks::Spec spec = ranks_spec(*scenario.ranks, replay_of(scenario, {.memory_budget = kGiB}).spec);
  CHECK(spec.processes() == 6);
  CHECK_FALSE(spec.colocated);
  CHECK(spec.bench.config_json == scenario.config_json);
}
