// Projections: what they count against what a bench counts, how they answer to switches and hardware, and
// their files.
#include "refit/project/project.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "project/staged_replay.hpp"
#include "refit/project/validation.hpp"
#include "refit/project/what_if.hpp"
#include "refit/reshard/loads.hpp"
#include "support/catch.hpp"
#include "support/error_of.hpp"
#include "support/temp_dir.hpp"
#include "support/tiny_bench.hpp"

namespace fs = std::filesystem;
using namespace refit;
using namespace refit::project;

namespace {

/// All 0 where the arm has no such stage.
run::StageSamples stage_of(const run::ArmResult& arm, const std::string& name, run::Role role) {
  for (const run::StageSamples& samples : arm.stages) {
    if (samples.name == name && samples.role == role) return samples;
  }
  return {};
}

std::uint64_t launches(const run::ArmResult& arm, const std::string& stage, run::Role role) {
  return stage_of(arm, stage, role).launches;
}

std::uint64_t bytes(const run::ArmResult& arm, const std::string& stage, run::Role role) {
  return stage_of(arm, stage, role).bytes;
}

scenario::Scenario published() {
  return scenario::find_scenario("qwen3-30b");
}

model::Inventory model_of(const scenario::Scenario& scenario) {
  return model::parse_inventory(scenario.config_json, scenario.config_place);
}

/// The whole model on one GPU.
scenario::Scenario alone(const std::string& switches, const std::string& over_them = "") {
  scenario::Scenario scenario = published();
  scenario.cluster.reset();
  scenario::override_switches(scenario.control, switches);
  scenario::override_switches(scenario.control, over_them);
  return scenario;
}

double transfer_of(const scenario::Scenario& scenario, const Platform& platform, const Stack& stack) {
  return Projector(scenario, model_of(scenario), platform, stack, std::nullopt, Projector::Arms::control)
      .arm(true, platform, stack)
      .transfer.s;
}

const std::string kAllOn =
    "prequantize=on,quantize=per-bucket,ipc_buffers=persistent,loader=cached,shuffle=fused";

void write(const fs::path& file, const nlohmann::json& json) {
  std::ofstream(file) << json;
}

nlohmann::json read(const fs::path& file) {
  return nlohmann::json::parse(std::ifstream(file));
}

}  // namespace

TEST_CASE("a projection counts the calls and bytes that a bench makes, whatever the switches") {
  const std::string switches =
      GENERATE("", "prequantize=off,loader=lookup,shuffle=per-expert,ipc_buffers=per-refit",
               "prequantize=off,loader=cached,shuffle=batched", "loader=lookup", "quantize=batched",
               "quantize=per-bucket", "quantize=per-bucket,prequantize=off", "shuffle=fused",
               "shuffle=per-expert,handles=per-tensor", "double_buffer=off,metadata=offset-map");
  INFO(switches);
  const run::BenchSpec spec = test::tiny_bench(switches, {});
  const run::ArmResult arm = test::bench(spec).control;
  REQUIRE(arm.verdict.passed());
  const plan::Plan plan = run::make_plan(spec, spec.control);
  const StagedLoad load = staged_load(plan, spec.control, nullptr);
  BucketLoad sum;
  for (const BucketLoad& bucket : load.buckets) {
    sum.gathered += bucket.gathered;
    sum.packed_keys += bucket.packed_keys;
    sum.quantize_calls += bucket.quantize_calls;
    sum.list_calls += bucket.list_calls;
    sum.pack_bytes += bucket.pack_bytes;
    sum.load_kernels += bucket.load_kernels;
    sum.load_bytes += bucket.load_bytes;
    sum.handles += bucket.handles;
  }
  using run::Role;
  CHECK(load.buckets.size() == arm.buckets);
  CHECK(sum.packed_keys + sum.list_calls == launches(arm, "pack", Role::trainer));
  CHECK(sum.quantize_calls == launches(arm, "quantize", Role::trainer));
  CHECK(sum.load_kernels ==
        launches(arm, "load", Role::generator) + launches(arm, "quantize", Role::generator));
  CHECK(sum.handles == launches(arm, "open", Role::generator));
  CHECK(sum.pack_bytes == bytes(arm, "pack", Role::trainer) + bytes(arm, "quantize", Role::trainer));
  CHECK(sum.load_bytes == bytes(arm, "load", Role::generator) + bytes(arm, "quantize", Role::generator));
  CHECK(load.relayout.shuffle_bytes == bytes(arm, "shuffle", Role::generator));
}

TEST_CASE("the ranks of a trainer that hold a tensor need nothing of it from others") {
  const model::Inventory model = model_of(published());
  plan::Request request;
  request.model = model;
  request.recipe.kind = model::default_recipe(model);
  const plan::Plan plan = plan::build(request);
  const auto layout =
      reshard::trainer_layout(model, reshard::parse_parallelism("dp=16,ep=16", reshard::Side::trainer),
                              reshard::TrainerForm::megatron);
  const auto sums = [&](std::uint32_t ranks_per_domain) {
    const Gathering gathering{*layout, 3, ranks_per_domain};
    std::pair<std::uint64_t, std::uint64_t> bytes{0, 0};
    for (const BucketLoad& bucket : staged_load(plan, published().control.switches, &gathering).buckets) {
      bytes.first += bucket.peer_bytes;
      bytes.second += bucket.network_bytes;
    }
    return bytes;
  };
  // Every rank has one sixteenth of the experts and all the rest.
  const std::uint64_t others = model.expert_bytes() / 16 * 15;
  CHECK(sums(16) == std::pair<std::uint64_t, std::uint64_t>{others, 0});
  // Of two domains of eight the other half of the experts comes in over eight ports.
  CHECK(sums(8) == std::pair<std::uint64_t, std::uint64_t>{others, model.expert_bytes() / 2 / 8});
}

TEST_CASE("a projection answers to what it is of") {
  const Platform h200 = find_platform("h200");
  const Stack own = find_stack("refit");
  const double on = transfer_of(alone(kAllOn), h200, own);
  SECTION("a memory twice as fast halves a direct refit, and a slower host does not touch it much") {
    const double direct = transfer_of(alone("pipeline=direct,prequantize=on"), h200, own);
    Platform faster = h200;
    faster.memory_bandwidth.value *= 2;
    CHECK(transfer_of(alone("pipeline=direct,prequantize=on"), faster, own) < 0.55 * direct);
    Platform slower = h200;
    slower.host_cost.figure.value *= 2;
    CHECK(transfer_of(alone("pipeline=direct,prequantize=on"), slower, own) < 1.05 * direct);
    CHECK(direct < on);
  }
  SECTION("every switch that does something costs something when it is taken back") {
    for (const std::string off :
         {"quantize=per-tensor", "metadata=offset-map", "handles=per-tensor", "ipc_buffers=per-refit",
          "loader=lookup", "shuffle=per-expert", "shuffle=batched", "handle_encoding=with-function"}) {
      INFO(off);
      CHECK(transfer_of(alone(kAllOn, off), h200, own) > on);
    }
  }
  SECTION("buffers overlap packing with loading, and small ones cost messages") {
    CHECK(transfer_of(alone(kAllOn, "buffer_size=64MiB"), h200, own) > on);
    const double one_buffer = transfer_of(alone(kAllOn, "buffer_size=512MiB,double_buffer=off"), h200, own);
    CHECK(one_buffer > transfer_of(alone(kAllOn, "buffer_size=1GiB"), h200, own));
  }
  SECTION("a domain that holds all ranks is faster than a network") {
    scenario::Scenario cluster = published();
    scenario::override_switches(cluster.control, "pipeline=direct,prequantize=on");
    Platform b200 = find_platform("b200");
    const double over_network = transfer_of(cluster, b200, own);
    b200.gpus_per_domain.value = 72;
    CHECK(transfer_of(cluster, b200, own) < 0.5 * over_network);
  }
}

TEST_CASE("no projection is faster than its floor, and its critical path is all of it") {
  for (const char* name : {"qwen3-30b", "qwen3-30b-batched", "nemotron-nano3", "tiny-moe-ep4"}) {
    for (const char* stack_name : {"nemo-rl", "refit"}) {
      INFO(name << " " << stack_name);
      const scenario::Scenario scenario = scenario::find_scenario(name);
      const Platform platform = find_platform("gb200");
      const Projection projection =
          project::project(scenario, model_of(scenario), platform, find_stack(stack_name));
      for (const ProjectedArm* arm : {&projection.control, &projection.treatment}) {
        CHECK(arm->transfer.s >= arm->floor_s);
        CHECK(arm->prepare.s >= arm->transfer.s);
        double sum = 0;
        for (const auto& [part, seconds] : arm->critical) sum += seconds;
        CHECK(sum == Approx(arm->transfer.s));
      }
    }
  }
}

TEST_CASE("the loads of all ranks are the plan's") {
  const scenario::Scenario scenario = scenario::find_scenario("tiny-moe-ep4");
  const model::Inventory model = model_of(scenario);
  const std::vector<bool> quantized = model::select_quantized(model, {model::default_recipe(model), {}});
  const auto trainer = reshard::trainer_layout(model, scenario.ranks->trainer, scenario.ranks->form);
  const auto generator = reshard::generator_layout(model, scenario.ranks->generator, quantized);
  const bool colocated = GENERATE(true, false);
  const reshard::Options options{.colocated = colocated, .round_bytes = 1u << 18, .gpus_per_node = 2};
  const reshard::Reshard plan =
      reshard::reshard(model, quantized, *trainer, *generator, options, std::nullopt, std::nullopt);
  const reshard::Loads loads = reshard::loads(model, quantized, *trainer, *generator, options);
  REQUIRE(loads.rounds == plan.rounds);
  REQUIRE(loads.rounds > 3);
  for (std::uint32_t r = 0; r < loads.trainers; ++r) {
    std::uint64_t sent = 0;
    for (std::uint32_t round = 0; round < loads.rounds; ++round) {
      sent += loads.send(round, r).host_bytes + loads.send(round, r).network_bytes;
    }
    CHECK(sent == plan.trainers[r].remote_bytes);
  }
  for (std::uint32_t r = 0; r < loads.generators; ++r) {
    std::uint64_t received = 0, boxes = 0;
    for (std::uint32_t round = 0; round < loads.rounds; ++round) {
      const reshard::ReceiveLoad& load = loads.receive(round, r);
      received += load.host_bytes + load.network_bytes;
      boxes += load.boxes + load.own_boxes;
    }
    CHECK(received == plan.generators[r].remote_bytes);
    CHECK(boxes == plan.generators[r].transfers);
    for (const std::uint32_t from : loads.senders[r]) {
      CHECK(plan.links[std::size_t{from} * loads.generators + r] > 0);
    }
  }
}

TEST_CASE("a validation leaves each table out, and a fit to all is what the files hold") {
  const Stack stack = find_stack("nemo-rl");
  const Validation validation = validate(find_tables(), stack, find_stack("refit"));
  CHECK(validation.rows.size() == 28);
  CHECK(validation.changes.size() == 14);
  CHECK(validation.measured.size() > 15);
  for (const MeasuredRow& row : validation.measured) CHECK(row.projected_s > 0);
  for (std::size_t cost = 0; cost < kCosts; ++cost) {
    INFO(name_of(static_cast<Cost>(cost)) << ": run scripts/fit-stack");
    const double fitted = validation.stack.costs[cost].figure.value;
    CHECK(stack.costs[cost].figure.value == Approx(fitted).epsilon(0.01));
  }
  for (const Platform& platform : validation.platforms) {
    INFO(platform.name);
    CHECK(find_platform(platform.name).host_cost.figure.value ==
          Approx(platform.host_cost.figure.value).epsilon(0.01));
  }
  for (const auto& [phase, error] : validation.stack.leave_out) {
    REQUIRE(stack.leave_out.contains(phase));
    CHECK(stack.leave_out.at(phase) == Approx(error).epsilon(0.01));
  }
}

TEST_CASE("a table that is left out has no part in its own projection") {
  Tables tables = find_tables();
  tables.measured.clear();
  tables.published.resize(3);
  const Stack stack = find_stack("nemo-rl"), own = find_stack("refit");
  const Validation before = validate(tables, stack, own);
  for (auto& [key, phase] : tables.published[1].scenarios.front().phases) {
    if (phase.control_s) *phase.control_s *= 3;
    if (phase.treatment_s) *phase.treatment_s *= 3;
  }
  const Validation after = validate(tables, stack, own);
  bool others_moved = false;
  for (std::size_t i = 0; i < before.rows.size(); ++i) {
    const Row &was = before.rows[i], &is = after.rows[i];
    if (was.phase == "total_step_time") continue;  // its other phases are published ones
    if (was.table == tables.published[1].title) {
      CHECK(is.projected_s == Approx(was.projected_s));
    } else {
      others_moved = others_moved || is.projected_s > 1.05 * was.projected_s;
    }
  }
  CHECK(others_moved);
}

TEST_CASE("what was measured here stands in results as the list of tables says") {
  const nlohmann::json tables = read(fs::path(REFIT_TESTS_DIR) / "../scenarios/published/tables.json");
  std::size_t compared = 0;
  for (const nlohmann::json& run : tables.at("measured")) {
    const std::string source = run.at("source");
    const std::size_t comma = source.find(", ");
    const nlohmann::json result = read(fs::path(REFIT_TESTS_DIR) / ".." / source.substr(0, comma));
    const std::string where = source.substr(comma + 2);
    INFO(source);
    if (result.contains("arms")) {
      CHECK(
          result["arms"][where]["phases"]["prepare_for_generation/transfer_and_update_weights"]["median_s"] ==
          run.at("median_s"));
      ++compared;
      continue;
    }
    for (const nlohmann::json& row : result.at("rows")) {
      if (where == row.at("kind").get<std::string>() + ", " + row.at("switch").get<std::string>()) {
        CHECK(row.at("treatment_s") == run.at("median_s"));
        ++compared;
      }
    }
  }
  CHECK(compared == tables.at("measured").size());
}

TEST_CASE("what-if changes one thing at a time and puts what helps most first") {
  const scenario::Scenario scenario = published();
  const WhatIf result =
      what_if(scenario, model_of(scenario), find_platform("b200"), find_stack("nemo-rl"), true);
  REQUIRE(result.candidates.size() > 10);
  CHECK(std::is_sorted(result.candidates.begin(), result.candidates.end(),
                       [](const Candidate& a, const Candidate& b) { return a.transfer_s < b.transfer_s; }));
  const auto named = [&](const std::string& change) {
    const auto found = std::find_if(result.candidates.begin(), result.candidates.end(),
                                    [&](const Candidate& each) { return each.change == change; });
    REQUIRE(found != result.candidates.end());
    return found->transfer_s;
  };
  scenario::Scenario changed = scenario;
  scenario::override_switches(changed.control, "shuffle=batched");
  CHECK(named("shuffle=batched") ==
        Approx(transfer_of(changed, find_platform("b200"), find_stack("nemo-rl"))));
  CHECK(named("2 network adapters for each GPU") <= result.base.transfer.s);
}

TEST_CASE("platforms and stacks are read strictly, and every complaint says where") {
  const TempDir folder;
  const fs::path shipped = fs::path(REFIT_TESTS_DIR) / "../scenarios";
  nlohmann::json platform = read(shipped / "platforms/h200.json"),
                 stack = read(shipped / "stacks/refit.json");
  const fs::path at = folder.path("h200.json"), stack_at = folder.path("refit.json");
  const auto refused = [&](const std::string& words) {
    write(at, platform);
    check_input_error([&] { (void)load_platform(at); }, words, at.string());
  };
  SECTION("as shipped") {
    for (const std::string& name : platform_names()) CHECK(find_platform(name).name == name);
    for (const std::string& name : stack_names()) CHECK(find_stack(name).name == name);
    CHECK(platform_names().size() >= 7);
  }
  SECTION("a figure without a source") {
    platform["memory_gbps"]["source"] = "";
    refused("/memory_gbps/source");
  }
  SECTION("a figure of no bandwidth") {
    platform["peer_gbps"]["value"] = 0;
    refused("/peer_gbps/value");
  }
  SECTION("a key that nobody knows") {
    platform["memory_gpbs"] = platform["memory_gbps"];
    refused("/memory_gpbs is not a known key");
  }
  SECTION("an efficiency above 1") {
    platform["network_efficiency"]["value"] = 1.5;
    refused("/network_efficiency/value");
  }
  SECTION("so little that products of it are nothing") {
    platform["memory_gbps"]["value"] = 1e-300;
    refused("/memory_gbps/value");
  }
  SECTION("a cost without bounds") {
    stack["costs_s"]["load_lookup"]["value"] = 1e308;
    write(stack_at, stack);
    check_input_error([&] { (void)load_stack(stack_at); }, "/costs_s/load_lookup/value");
  }
  SECTION("half a GPU") {
    platform["gpus_per_node"]["value"] = 7.5;
    refused("/gpus_per_node/value");
  }
  SECTION("a basis that is none") {
    platform["kernel_s"]["basis"] = "guessed";
    refused("/kernel_s/basis");
  }
  SECTION("another file's name") {
    platform["name"] = "b200";
    refused("/name");
  }
  SECTION("a stack without a cost, or with half a prior") {
    nlohmann::json half = stack;
    stack["costs_s"].erase("bucket");
    write(stack_at, stack);
    check_input_error([&] { (void)load_stack(stack_at); }, "bucket");
    half["costs_s"]["pack"]["prior"] = 1e-5;
    write(stack_at, half);
    check_input_error([&] { (void)load_stack(stack_at); }, "/costs_s/pack");
  }
  SECTION("a name that is nearly one") {
    check_input_error([] { (void)find_platform("gb20"); }, "\"gb200\"");
    check_input_error([] { (void)find_stack("nemorl"); }, "\"nemo-rl\"");
  }
}
