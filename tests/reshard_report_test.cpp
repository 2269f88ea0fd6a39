// What is said of a plan of many ranks: costs by hand, places against real layouts, words.
#include "refit/reshard/report.hpp"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "refit/model/recipe.hpp"
#include "support/catch.hpp"
#include "support/tiny_model.hpp"

using namespace refit;
using namespace refit::reshard;

namespace {

/// Trainer ranks 0 and 1 to generator ranks 0 to 3, with every kind of link.
Reshard small_plan() {
  Reshard plan;
  plan.options.gpus_per_node = 2;
  plan.trainers = {{.remote_bytes = 70, .local_bytes = 5, .largest_round = 1024},
                   {.remote_bytes = 30, .local_bytes = 0, .largest_round = 512}};
  plan.generators = {{.remote_bytes = 0, .local_bytes = 5, .largest_round = 0},
                     {.remote_bytes = 10, .largest_round = 2048},
                     {.remote_bytes = 50, .largest_round = 512},
                     {.remote_bytes = 40, .largest_round = 512}};
  plan.links = {0, 10, 50, 10, 0, 0, 0, 30};
  return plan;
}

struct Sides {
  model::Inventory model = model::parse_inventory(test::kTinyConfig, "test config");
  model::Recipe recipe;
  std::vector<bool> quantized = model::select_quantized(model, recipe);
  std::unique_ptr<Layout> trainer, generator;
  Sides(const std::string& train, TrainerForm form, const std::string& gen)
      : trainer(trainer_layout(model, parse_parallelism(train, Side::trainer), form)),
        generator(generator_layout(model, parse_parallelism(gen, Side::generator), quantized)) {}
};

/// Element (row, col) of the whole tensor, wherever it is found.
using Elements = std::map<std::pair<std::uint64_t, std::uint64_t>, std::pair<std::uint64_t, std::uint64_t>>;

/// Where a rank's own tensors have the elements of `tensor`: own (row, col) to whole (row, col), by own name.
std::map<std::string, Elements> held(const Local& local, std::uint32_t tensor) {
  std::map<std::string, Elements> held;
  for (const Placed& placed : local.placed) {
    if (placed.tensor != tensor) continue;
    for (std::uint64_t row = 0; row < placed.box.rows; ++row) {
      for (std::uint64_t col = 0; col < placed.box.cols; ++col) {
        held[local.tensors[placed.local].name][{placed.local_row + row, placed.local_col + col}] = {
            placed.box.row + row, placed.box.col + col};
      }
    }
  }
  return held;
}

/// The same of the engine's parameters, matrices below each other, by the plan of the rank's whole model.
std::map<std::string, Elements> engine(const Local& local, const model::Recipe& recipe,
                                       std::uint32_t tensor) {
  plan::Request request;
  request.model = local.model;
  request.recipe = recipe;
  request.moe_layout = plan::MoeLayout::checkpoint;
  const plan::Plan plan = plan::build(request);
  const std::map<std::string, Elements> own = held(local, tensor);
  std::map<std::string, Elements> stored;
  for (const plan::Segment& segment : plan.segments) {
    const auto& name = plan.sources[segment.source].spec.name;
    for (std::size_t i = 0; i < local.tensors.size(); ++i) {
      if (local.model.tensors[i].spec.name != name || !own.contains(local.tensors[i].name)) continue;
      const plan::Destination& to = plan.destinations[segment.destination];
      for (const auto& [at, whole] : own.at(local.tensors[i].name)) {
        if (at.first < segment.source_row || at.first >= segment.source_row + segment.rows) continue;
        const std::uint64_t row =
            segment.matrix * to.matrix_rows + segment.row_begin + at.first - segment.source_row;
        stored[to.spec.name][{row, at.second}] = whole;
      }
    }
  }
  return stored;
}

std::uint64_t matrix_rows(const Local& local, const model::Recipe& recipe, const std::string& parameter) {
  plan::Request request;
  request.model = local.model;
  request.recipe = recipe;
  request.moe_layout = plan::MoeLayout::checkpoint;
  for (const plan::Destination& to : plan::build(request).destinations) {
    if (to.spec.name == parameter) return to.matrix_rows;
  }
  FAIL("no parameter " + parameter);
  return 0;
}

/// Every element of the tensor comes from where a trainer rank has it and goes to where an engine keeps it.
void check_places(const Sides& sides, std::uint32_t tensor) {
  const Options options;
  const auto transfers =
      explain(sides.model, sides.quantized, *sides.trainer, *sides.generator, options, tensor);
  const auto placed =
      places(*sides.trainer, *sides.generator, transfers, sides.recipe, plan::MoeLayout::checkpoint);
  std::map<std::uint32_t, std::map<std::string, Elements>> got;
  std::map<std::uint32_t, Local> trainers, generators;
  std::uint64_t wrong = 0;
  for (const PlacedTransfer& part : placed) {
    const auto [from, to] = std::pair(part.transfer.from, part.transfer.to);
    if (!trainers.contains(from)) trainers[from] = sides.trainer->local(from);
    if (!generators.contains(to)) generators[to] = sides.generator->local(to);
    const auto own = held(trainers[from], tensor);
    REQUIRE(own.contains(part.from.tensor));
    const std::uint64_t rows = matrix_rows(generators[to], sides.recipe, part.to.tensor);
    Elements& stored = got[to][part.to.tensor];
    for (std::uint64_t row = 0; row < part.box.rows; ++row) {
      for (std::uint64_t col = 0; col < part.box.cols; ++col) {
        const std::pair whole(part.box.row + row, part.box.col + col);
        const auto at = own.at(part.from.tensor).find({part.from.row + row, part.from.col + col});
        wrong += at == own.at(part.from.tensor).end() || at->second != whole;
        wrong +=
            !stored.emplace(std::pair(part.to.matrix * rows + part.to.row + row, part.to.col + col), whole)
                 .second;
      }
    }
  }
  CHECK(wrong == 0);
  for (auto& [rank, local] : generators) CHECK(got[rank] == engine(local, sides.recipe, tensor));
  CHECK(!generators.empty());
}

}  // namespace

TEST_CASE("the costs of a plan are those of its busiest ranks") {
  const Reshard plan = small_plan();
  const Summary summary = summarize(plan, {.host = 10.0, .network = 5.0, .copy = 2.0});
  CHECK(summary.process_bytes == 5);
  CHECK(summary.remote_bytes == 100);
  CHECK(summary.host_bytes == 10);
  CHECK(summary.network_bytes == 90);
  CHECK(summary.sent.least == 30);
  CHECK(summary.sent.most == 70);
  CHECK(summary.received.median == 10);
  CHECK(*summary.imbalance == Approx(1.4));
  // Rank 1 sends 512 and receives 2048 in its largest rounds.
  CHECK(summary.peak_extra_bytes == 2 * (512 + 2048));
  // Rank 0 sends 70, and reads and writes 5 of its own.
  CHECK(summary.memory.bytes == 80);
  CHECK(*summary.memory.seconds == Approx(40));
  CHECK(summary.host->bytes == 10);
  CHECK(*summary.host->seconds == Approx(1));
  CHECK(summary.network->bytes == 60);
  CHECK(*summary.network->seconds == Approx(12));
}

TEST_CASE("without hosts there are no bytes between them, and without bandwidths no seconds") {
  Reshard plan = small_plan();
  plan.options.gpus_per_node = 0;
  const Summary summary = summarize(plan, {});
  CHECK(!summary.host_bytes);
  CHECK(!summary.network_bytes);
  CHECK(!summary.host);
  CHECK(!summary.network);
  CHECK(!summary.memory.seconds);
  CHECK(link_between(0, 1, plan.options) == Link::unknown);
  plan.options.colocated = false;
  CHECK(link_between(1, 1, plan.options) == Link::network);
  CHECK(summarize(plan, {}).network_bytes == 100);
  CHECK(summarize(plan, {}).peak_extra_bytes == 2 * 2048);
}

TEST_CASE("a plan that moves nothing has no imbalance") {
  Reshard plan;
  plan.trainers.resize(2);
  plan.generators.resize(2);
  plan.links.resize(4);
  CHECK(!summarize(plan, {}).imbalance);
}

TEST_CASE("a rank's peers are those of its transfers") {
  const Sides sides("tp=2,pp=3", TrainerForm::megatron, "tp=2,dp=2");
  const Reshard plan =
      reshard::reshard(sides.model, sides.quantized, *sides.trainer, *sides.generator, {}, 4, 1);
  std::uint64_t sent = 0, received = 0;
  for (const Peer& peer : receivers(plan, sides.model)) {
    CHECK(peer.bytes == plan.links[4 * 4 + peer.rank]);
    sent += peer.bytes;
  }
  for (const Peer& peer : senders(plan, sides.model)) {
    if (peer.link != Link::process) received += peer.bytes;
  }
  CHECK(sent == plan.trainers[4].remote_bytes);
  CHECK(received == plan.generators[1].remote_bytes);
}

TEST_CASE("places lead from the trainer's own tensors to the engine's parameters") {
  const Sides megatron("tp=2,pp=3,ep=2", TrainerForm::megatron, "tp=2");
  const Sides experts("fsdp=3", TrainerForm::hf, "tp=2,ep=2");
  for (const Sides* sides : {&megatron, &experts}) {
    for (const char* name :
         {"model.layers.0.self_attn.q_proj.weight", "model.layers.1.self_attn.v_proj.bias",
          "model.layers.1.self_attn.o_proj.weight", "model.layers.0.mlp.up_proj.weight",
          "model.layers.2.mlp.experts.5.up_proj.weight", "model.layers.2.mlp.experts.5.down_proj.weight"}) {
      CAPTURE(name);
      std::uint32_t tensor = 0;
      while (sides->model.tensors.at(tensor).spec.name != name) ++tensor;
      check_places(*sides, tensor);
    }
  }
}

TEST_CASE("the words of a plan are read back") {
  for (const TrainerForm form : {TrainerForm::megatron, TrainerForm::hf}) {
    CHECK(parse_trainer_form(name_of(form)) == form);
  }
  CHECK(!parse_trainer_form("torch"));
  CHECK(name_of(Form::quantized_late) == "quantized-late");
  CHECK(name_of(Link::unknown) == "unknown");
}

TEST_CASE("JSON has nulls for what is not known") {
  Report report;
  report.plan = small_plan();
  report.plan.options.gpus_per_node = 0;
  report.summary = summarize(report.plan, {});
  const Json json = parse_json(to_json(report), "report");
  CHECK(json["schema"] == "refit-plan/1");
  CHECK(json["options"]["gpus_per_node"].is_null());
  CHECK(json["bytes"]["same_host"].is_null());
  CHECK(json["floors"]["between_hosts"].is_null());
  CHECK(json["floors"]["memory"]["seconds"].is_null());
  CHECK(json["rank"].is_null());
  CHECK(json["explained"].is_null());
}
