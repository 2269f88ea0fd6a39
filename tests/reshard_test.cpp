// The plan of many ranks against one that gathers everything: random models, random and real layouts.
#include "refit/reshard/reshard.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "refit/base/error.hpp"
#include "refit/model/recipe.hpp"
#include "support/catch.hpp"
#include "support/error_of.hpp"

using namespace refit;
using namespace refit::reshard;

namespace {

using Random = std::mt19937_64;
using Groups = std::vector<std::vector<std::uint32_t>>;

std::uint64_t below(Random& random, std::uint64_t limit) {
  return random() % limit;
}

/// A layout that says what it is told.
class ToldLayout final : public Layout {
 public:
  ToldLayout(std::uint32_t ranks, Groups groups, std::vector<std::vector<Shard>> shards)
      : shards_(std::move(shards)) {
    parallelism_.dp = ranks;
    groups_ = std::move(groups);
  }
  void shards(std::uint32_t tensor, std::vector<Shard>& shards) const override { shards = shards_[tensor]; }
  [[nodiscard]] Local local(std::uint32_t) const override { return {}; }

 private:
  std::vector<std::vector<Shard>> shards_;
};

struct Model {
  model::Inventory inventory;
  std::vector<bool> quantized;
  void add(Shape shape, DType dtype, bool is_quantized) {
    model::Tensor tensor;
    tensor.spec = {"t" + std::to_string(inventory.tensors.size()), std::move(shape), dtype};
    inventory.tensors.push_back(std::move(tensor));
    quantized.push_back(is_quantized);
  }
  [[nodiscard]] Box box(std::size_t tensor) const {
    const TensorSpec& spec = inventory.tensors[tensor].spec;
    return {0, spec.rows(), 0, spec.cols()};
  }
};

/// Matrices, vectors, slabs, scalars and tensors without elements; a third is quantized.
Model random_model(Random& random) {
  Model made;
  const std::uint64_t count = 1 + below(random, 6);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t rows = 1 + below(random, 40), cols = 32 * (1 + below(random, 4));
    switch (below(random, 8)) {
      case 0:
        made.add({rows}, DType::f32, false);
        break;
      case 1:
        made.add({1 + below(random, 5), 1 + below(random, 9), 1 + below(random, 50)}, DType::bf16, false);
        break;
      case 2:
        made.add(below(random, 2) == 0 ? Shape{} : Shape{rows, 0}, DType::bf16, false);
        break;
      case 3:
        made.add({rows, 1 + below(random, 70)}, DType::bf16, false);
        break;
      case 4:
        made.add({300 + rows, cols}, DType::bf16, true);
        break;
      default:
        made.add({rows, cols}, DType::bf16, below(random, 2) == 0);
    }
  }
  return made;
}

void cut(Random& random, const Box& box, int depth, std::vector<Box>& boxes) {
  const bool by_rows = below(random, 3) != 0;
  const std::uint64_t size = by_rows ? box.rows : box.cols;
  if (depth == 0 || size < 2 || below(random, 3) == 0) {
    boxes.push_back(box);
    return;
  }
  std::uint64_t at = 1 + below(random, size - 1);
  // Every other cut of columns is between blocks.
  if (!by_rows && size > 32 && below(random, 2) == 0) at = std::max<std::uint64_t>(32, at / 32 * 32);
  Box first = box, second = box;
  (by_rows ? first.rows : first.cols) = at;
  (by_rows ? second.row : second.col) += at;
  (by_rows ? second.rows : second.cols) -= at;
  cut(random, first, depth - 1, boxes);
  cut(random, second, depth - 1, boxes);
}

/// Each tensor in random boxes, each box held by a random set of ranks.
ToldLayout random_layout(Random& random, const Model& model, std::uint32_t ranks) {
  Groups groups(1 + below(random, 6));
  for (auto& group : groups) {
    const std::uint64_t wanted = below(random, 3) == 0 ? ranks : 1 + below(random, std::min(ranks, 8u));
    for (std::uint32_t rank = 0; rank < ranks; ++rank) group.push_back(rank);
    std::shuffle(group.begin(), group.end(), random);
    group.resize(wanted);
    std::sort(group.begin(), group.end());
  }
  std::vector<std::vector<Shard>> shards(model.quantized.size());
  for (std::size_t tensor = 0; tensor < shards.size(); ++tensor) {
    std::vector<Box> boxes;
    if (!model.box(tensor).empty()) cut(random, model.box(tensor), 4, boxes);
    std::sort(boxes.begin(), boxes.end(),
              [](const Box& a, const Box& b) { return std::pair(a.row, a.col) < std::pair(b.row, b.col); });
    for (const Box& box : boxes) {
      shards[tensor].push_back({box, static_cast<std::uint32_t>(below(random, groups.size()))});
    }
  }
  return {ranks, std::move(groups), std::move(shards)};
}

std::vector<Shard> shards_of(const Layout& layout, std::size_t tensor) {
  std::vector<Shard> shards;
  layout.shards(static_cast<std::uint32_t>(tensor), shards);
  return shards;
}

bool holds(const std::vector<std::uint32_t>& group, std::uint32_t rank) {
  return std::binary_search(group.begin(), group.end(), rank);
}

template <typename Body>
void each_element(const Box& box, std::uint64_t cols, Body&& body) {
  for (std::uint64_t row = box.row; row < box.row + box.rows; ++row) {
    for (std::uint64_t col = box.col; col < box.col + box.cols; ++col) body(row * cols + col);
  }
}

/// One tensor on all ranks of a side: 0 where a rank has nothing.
using Held = std::vector<std::vector<std::uint32_t>>;

std::uint64_t up(std::uint64_t bytes) {
  return (bytes + 511) / 512 * 512;
}

/// A plan and everything that it is checked with.
struct Case {
  const Model& model;
  const Layout& trainer;
  const Layout& generator;
  Options options;

  [[nodiscard]] Reshard plan(std::optional<std::uint32_t> trainer_rank = {},
                             std::optional<std::uint32_t> generator_rank = {}) const {
    return reshard::reshard(model.inventory, model.quantized, trainer, generator, options, trainer_rank,
                            generator_rank);
  }
  [[nodiscard]] std::vector<Transfer> of_tensor(std::size_t tensor) const {
    return explain(model.inventory, model.quantized, trainer, generator, options,
                   static_cast<std::uint32_t>(tensor));
  }
  [[nodiscard]] bool local(const Transfer& transfer) const {
    return options.colocated && transfer.from == transfer.to;
  }
  /// Bytes that the receiver's memory sees, each box and its scales on a boundary of 512.
  [[nodiscard]] std::uint64_t aligned(const Transfer& transfer) const {
    const std::uint64_t elements = transfer.box.elements();
    if (transfer.form == Form::quantized) return up(elements) + up(elements / 32);
    return up(elements * size_of(model.inventory.tensors[transfer.tensor].spec.dtype));
  }
};

/// Moves the numbers of one tensor's elements and compares with what gathering everything gives.
void check_elements(const Case& at, std::size_t tensor, const std::vector<Transfer>& transfers) {
  const Box whole = at.model.box(tensor);
  Held held(at.trainer.ranks(), std::vector<std::uint32_t>(whole.elements()));
  for (const Shard& shard : shards_of(at.trainer, tensor)) {
    for (const std::uint32_t rank : at.trainer.groups()[shard.holders]) {
      each_element(shard.box, whole.cols,
                   [&](std::size_t i) { held[rank][i] = static_cast<std::uint32_t>(i) + 1; });
    }
  }
  Held wanted(at.generator.ranks(), std::vector<std::uint32_t>(whole.elements())), got = wanted;
  for (const Shard& shard : shards_of(at.generator, tensor)) {
    for (const std::uint32_t rank : at.generator.groups()[shard.holders]) {
      each_element(shard.box, whole.cols,
                   [&](std::size_t i) { wanted[rank][i] = static_cast<std::uint32_t>(i) + 1; });
    }
  }
  std::uint64_t written_twice = 0, not_held = 0;
  for (const Transfer& transfer : transfers) {
    each_element(transfer.box, whole.cols, [&](std::size_t i) {
      written_twice += got[transfer.to][i] != 0;
      not_held += held[transfer.from][i] == 0;
      got[transfer.to][i] = held[transfer.from][i];
    });
  }
  CHECK(written_twice == 0);
  CHECK(not_held == 0);
  CHECK(got == wanted);
}

/// The ranks that a transfer may come from, by the rules alone.
std::vector<std::uint32_t> allowed_senders(const Case& at, const Transfer& transfer) {
  for (const Shard& shard : shards_of(at.trainer, transfer.tensor)) {
    if (intersection(shard.box, transfer.box) != transfer.box) continue;
    const auto& group = at.trainer.groups()[shard.holders];
    if (!at.options.colocated) return group;
    if (holds(group, transfer.to)) return {transfer.to};
    std::vector<std::uint32_t> near;
    const std::uint32_t gpus = at.options.gpus_per_node;
    for (const std::uint32_t rank : group) {
      if (gpus != 0 && rank / gpus == transfer.to / gpus) near.push_back(rank);
    }
    return near.empty() ? group : near;
  }
  return {};
}

/// Every transfer has a form that its cuts allow, and rows that are quantized late arrive in one round.
void check_forms(const Case& at, std::size_t tensor, const std::vector<Transfer>& transfers) {
  std::uint64_t wrong = 0, torn = 0;
  for (const Shard& wanted : shards_of(at.generator, tensor)) {
    bool whole_blocks = true;
    for (const Shard& held : shards_of(at.trainer, tensor)) {
      const Box box = intersection(held.box, wanted.box);
      if (!box.empty() && (box.col % 32 != 0 || box.cols % 32 != 0)) whole_blocks = false;
    }
    const Form form = !at.model.quantized[tensor]              ? Form::as_is
                      : at.options.prequantize && whole_blocks ? Form::quantized
                                                               : Form::quantized_late;
    std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint32_t> rounds;
    for (const Transfer& transfer : transfers) {
      if (intersection(transfer.box, wanted.box).empty()) continue;
      wrong += transfer.form != form;
      for (std::uint64_t row = transfer.box.row; row < transfer.box.row + transfer.box.rows; ++row) {
        const auto [first, fresh] = rounds.emplace(std::pair(transfer.to, row), transfer.round);
        torn += !fresh && first->second != transfer.round;
      }
    }
  }
  CHECK(wrong == 0);
  CHECK(torn == 0);
}

/// Everything that a plan adds up, added up again from its transfers.
void check_totals(const Case& at, const Reshard& plan, const std::vector<Transfer>& transfers) {
  std::vector<RankTotals> trainers(at.trainer.ranks()), generators(at.generator.ranks());
  std::vector<std::uint64_t> links(trainers.size() * generators.size());
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> sent, received;  // rank and round
  std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>> messages;
  std::uint64_t replicated = 0;
  std::uint32_t rounds = 0, forbidden = 0;
  for (const Transfer& transfer : transfers) {
    const std::uint64_t bytes = wire_bytes(transfer, at.model.inventory);
    rounds = std::max(rounds, transfer.round + 1);
    ++trainers[transfer.from].transfers;
    ++generators[transfer.to].transfers;
    const auto allowed = allowed_senders(at, transfer);
    forbidden += !holds(allowed, transfer.from);
    if (!at.local(transfer) || at.options.stage_local) {
      sent[{transfer.from, transfer.round}] += at.aligned(transfer);
      received[{transfer.to, transfer.round}] += at.aligned(transfer);
    }
    if (at.local(transfer)) {
      trainers[transfer.from].local_bytes += bytes;
      generators[transfer.to].local_bytes += bytes;
      continue;
    }
    trainers[transfer.from].remote_bytes += bytes;
    generators[transfer.to].remote_bytes += bytes;
    links[transfer.from * generators.size() + transfer.to] += bytes;
    if (allowed.size() > 1) replicated += bytes;
    if (messages.emplace(transfer.from, transfer.to, transfer.round).second) {
      ++trainers[transfer.from].messages;
      ++generators[transfer.to].messages;
    }
  }
  for (const auto& [key, bytes] : sent) {
    trainers[key.first].largest_round = std::max(trainers[key.first].largest_round, bytes);
  }
  for (const auto& [key, bytes] : received) {
    generators[key.first].largest_round = std::max(generators[key.first].largest_round, bytes);
  }
  const auto differing = [&](const std::vector<RankTotals>& a, const std::vector<RankTotals>& b) {
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const auto figures = [](const RankTotals& t) {
        return std::tuple(t.remote_bytes, t.local_bytes, t.messages, t.largest_round, t.transfers);
      };
      count += figures(a[i]) != figures(b[i]) || a[i].largest_round > at.options.round_bytes;
    }
    return count;
  };
  CHECK(forbidden == 0);
  CHECK(differing(plan.trainers, trainers) == 0);
  CHECK(differing(plan.generators, generators) == 0);
  CHECK(plan.links == links);
  CHECK(plan.transfers == transfers.size());
  CHECK(plan.messages == messages.size());
  CHECK(plan.rounds == rounds);
  CHECK(plan.replicated_bytes == replicated);
}

bool by_round(const std::vector<Transfer>& transfers) {
  return std::is_sorted(transfers.begin(), transfers.end(),
                        [](const Transfer& a, const Transfer& b) { return a.round < b.round; });
}

std::vector<Transfer> only(const std::vector<Transfer>& transfers, std::uint32_t Transfer::*end,
                           std::uint32_t rank) {
  std::vector<Transfer> chosen;
  std::copy_if(transfers.begin(), transfers.end(), std::back_inserter(chosen),
               [&](const Transfer& transfer) { return transfer.*end == rank; });
  return chosen;
}

/// What `from` lists for `to` and `to` for `from` is the same, in the same order; every rank has one digest.
void check_lists(const Case& at, Random& random, std::uint64_t digest) {
  const auto some = [&](const Layout& layout) {
    return static_cast<std::uint32_t>(below(random, layout.ranks()));
  };
  for (int i = 0; i < 3; ++i) {
    const std::uint32_t from = some(at.trainer), to = some(at.generator);
    const Reshard sender = at.plan(from, {}), receiver = at.plan({}, to);
    CHECK(sender.digest == digest);
    CHECK(receiver.digest == digest);
    CHECK(sender.receives.empty());
    CHECK(receiver.sends.empty());
    CHECK(sender.sends.size() == sender.trainers[from].transfers);
    CHECK(receiver.receives.size() == receiver.generators[to].transfers);
    CHECK(by_round(sender.sends));
    CHECK(by_round(receiver.receives));
    CHECK(only(sender.sends, &Transfer::to, to) == only(receiver.receives, &Transfer::from, from));
  }
}

void check_plan(const Case& at, Random& random) {
  const Reshard plan = at.plan();
  std::vector<Transfer> all;
  for (std::size_t tensor = 0; tensor < at.model.quantized.size(); ++tensor) {
    const std::vector<Transfer> transfers = at.of_tensor(tensor);
    check_elements(at, tensor, transfers);
    check_forms(at, tensor, transfers);
    CHECK(by_round(transfers));
    all.insert(all.end(), transfers.begin(), transfers.end());
  }
  check_totals(at, plan, all);
  check_lists(at, random, plan.digest);
}

std::uint32_t random_ranks(Random& random) {
  return static_cast<std::uint32_t>(1 + below(random, below(random, 4) == 0 ? 64 : 12));
}

Options random_options(Random& random) {
  Options options;
  options.colocated = below(random, 3) != 0;
  options.prequantize = below(random, 4) != 0;
  options.stage_local = below(random, 4) == 0;
  // The widest row of these models in as many pieces as there can be takes 16 boxes of 512 bytes.
  options.round_bytes = (std::uint64_t{8192} << below(random, 6)) + below(random, 512);
  options.gpus_per_node = static_cast<std::uint32_t>(below(random, 10));
  return options;
}

/// Dense, or with experts beside a dense layer; up to 64 ranks divide them.
Model small_model(Random& random) {
  static const char* const configs[] = {
      R"({"architectures": ["Glm4MoeForCausalLM"], "model_type": "glm4_moe", "hidden_size": 64,
          "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 16,
          "intermediate_size": 128, "moe_intermediate_size": 64, "n_routed_experts": 8,
          "num_experts_per_tok": 2, "n_shared_experts": 1, "first_k_dense_replace": 1, "attention_bias": true,
          "use_qk_norm": true, "vocab_size": 200, "tie_word_embeddings": false, "torch_dtype": "bfloat16"})",
      R"({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 64,
          "num_hidden_layers": 5, "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 8,
          "intermediate_size": 192, "vocab_size": 130, "tie_word_embeddings": true, "attention_bias": false,
          "torch_dtype": "bfloat16"})"};
  Model made;
  made.inventory = model::parse_inventory(configs[below(random, 2)], "test config");
  const auto recipe = below(random, 4) == 0 ? model::RecipeKind::none : model::default_recipe(made.inventory);
  made.quantized = model::select_quantized(made.inventory, {recipe});
  return made;
}

Parallelism random_parallelism(Random& random, Side side) {
  const auto power = [&](std::uint64_t most) { return std::uint32_t{1} << below(random, most + 1); };
  Parallelism parallelism;
  parallelism.dp = power(3);
  if (side == Side::trainer && below(random, 4) == 0) {
    parallelism.fsdp = static_cast<std::uint32_t>(1 + below(random, 8));
    return parallelism;
  }
  parallelism.tp = power(2);
  parallelism.pp = power(1);
  const std::uint32_t most = parallelism.tp * parallelism.dp;
  parallelism.ep = std::min(power(3), most);
  parallelism.etp = std::min(power(1), most / parallelism.ep);
  return parallelism;
}

Shard shard(const Box& box, std::uint32_t holders) {
  return {box, holders};
}

/// One rank's own tensors for each: rank i of `ranks` holds the i-th part of the rows.
ToldLayout row_layout(const Model& model, std::uint32_t ranks) {
  Groups groups;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) groups.push_back({rank});
  std::vector<std::vector<Shard>> shards(model.quantized.size());
  for (std::size_t tensor = 0; tensor < shards.size(); ++tensor) {
    const Box whole = model.box(tensor);
    const std::uint64_t rows = whole.rows / ranks;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      shards[tensor].push_back(shard({rank * rows, rows, 0, whole.cols}, rank));
    }
  }
  return {ranks, groups, shards};
}

/// Every rank holds everything.
ToldLayout replicated_layout(const Model& model, std::uint32_t ranks) {
  std::vector<std::uint32_t> all(ranks);
  std::iota(all.begin(), all.end(), 0u);
  std::vector<std::vector<Shard>> shards(model.quantized.size());
  for (std::size_t tensor = 0; tensor < shards.size(); ++tensor) {
    shards[tensor].push_back(shard(model.box(tensor), 0));
  }
  return {ranks, {all}, shards};
}

double imbalance(const Reshard& plan) {
  std::uint64_t sum = 0, most = 0;
  for (const RankTotals& rank : plan.trainers) {
    sum += rank.remote_bytes;
    most = std::max(most, rank.remote_bytes);
  }
  return static_cast<double>(most) * static_cast<double>(plan.trainers.size()) / static_cast<double>(sum);
}

}  // namespace

TEST_CASE("every element reaches every rank that wants it once, from a rank that holds it, in rounds") {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Model model = random_model(random);
    const ToldLayout trainer = random_layout(random, model, random_ranks(random));
    const ToldLayout generator = random_layout(random, model, random_ranks(random));
    check_plan({model, trainer, generator, random_options(random)}, random);
  }
}

TEST_CASE("real layouts of both sides move every element, too") {
  std::uint64_t planned = 0, refused = 0;
  for (std::uint64_t seed = 0; planned < 40; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Model model = small_model(random);
    try {
      const auto trainer = trainer_layout(model.inventory, random_parallelism(random, Side::trainer),
                                          below(random, 2) == 0 ? TrainerForm::megatron : TrainerForm::hf);
      const auto generator =
          generator_layout(model.inventory, random_parallelism(random, Side::generator), model.quantized);
      Options options = random_options(random);
      options.round_bytes += 1 << 18;
      check_plan({model, *trainer, *generator, options}, random);
      ++planned;
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::input);
      REQUIRE(++refused < 4000);
    }
  }
}

TEST_CASE("replicas share the sending to within one transfer") {
  Model model;
  for (int i = 0; i < 40; ++i) model.add({256, 1024}, DType::bf16, i % 2 == 0);
  for (const std::uint32_t trainers : {2u, 8u, 48u}) {
    const ToldLayout trainer = replicated_layout(model, trainers), generator = row_layout(model, 16);
    Case at{model, trainer, generator, {}};
    at.options.colocated = false;
    const Reshard plan = at.plan();
    std::uint64_t sum = 0, least = ~std::uint64_t{0}, most = 0;
    for (const RankTotals& rank : plan.trainers) {
      sum += rank.remote_bytes;
      least = std::min(least, rank.remote_bytes);
      most = std::max(most, rank.remote_bytes);
    }
    CHECK(plan.replicated_bytes == sum);
    CHECK(most - least <= 16 * 1024 * 2);
  }
}

TEST_CASE("what only one rank can send is counted before replicas are chosen") {
  // The last tensor is rank 0's alone, so rank 1 sends all that both have: 4 of 4 and 4 of 4.
  Model model;
  for (int i = 0; i < 5; ++i) model.add({i == 4 ? 64u : 16u, 64}, DType::bf16, false);
  std::vector<std::vector<Shard>> shards(4, {shard({0, 16, 0, 64}, 1)});
  shards.push_back({shard({0, 64, 0, 64}, 0)});
  const ToldLayout trainer(2, {{0}, {0, 1}}, shards), generator = replicated_layout(model, 1);
  Case at{model, trainer, generator, {}};
  at.options.colocated = false;
  const Reshard plan = at.plan();
  CHECK(plan.trainers[0].remote_bytes == 64 * 64 * 2);
  CHECK(plan.trainers[1].remote_bytes == 64 * 64 * 2);
}

TEST_CASE("a plan of equal parts and replicas is balanced to 5 %") {
  // Half of the bytes are forced, evenly, and half can come from any of 8 ranks.
  Model model;
  for (int i = 0; i < 64; ++i) model.add({64, 512}, DType::bf16, false);
  const ToldLayout rows = row_layout(model, 8), all = replicated_layout(model, 8);
  std::vector<std::vector<Shard>> shards;
  Groups groups = rows.groups();
  groups.push_back(all.groups().front());
  for (std::size_t tensor = 0; tensor < 64; ++tensor) {
    shards.push_back(tensor % 2 == 0 ? shards_of(rows, tensor) : std::vector{shard(model.box(tensor), 8)});
  }
  const ToldLayout trainer(8, groups, shards), generator = row_layout(model, 16);
  Case at{model, trainer, generator, {}};
  at.options.colocated = false;
  CHECK(imbalance(at.plan()) <= 1.05);
}

TEST_CASE("no replica could take over from a busier one") {
  Model model;
  model.inventory = model::load_inventory(std::string(REFIT_TESTS_DIR) + "/cases/configs/Qwen3-30B-A3B");
  model.quantized = model::select_quantized(model.inventory, {model::RecipeKind::routed_experts});
  const auto trainer = trainer_layout(model.inventory, parse_parallelism("tp=2,pp=2,ep=4", Side::trainer),
                                      TrainerForm::megatron);
  const auto generator = generator_layout(
      model.inventory, parse_parallelism("tp=4,dp=2,ep=8", Side::generator), model.quantized);
  for (const bool colocated : {true, false}) {
    Case at{model, *trainer, *generator, {}};
    at.options.colocated = colocated;
    const Reshard plan = at.plan();
    std::uint64_t total = 0, worst = 0;
    for (const RankTotals& rank : plan.trainers) total += rank.remote_bytes;
    for (std::uint32_t from = 0; from < plan.trainers.size(); ++from) {
      for (const Transfer& transfer : at.plan(from, {}).sends) {
        const std::uint64_t left = plan.trainers[from].remote_bytes - wire_bytes(transfer, model.inventory);
        for (const std::uint32_t other : allowed_senders(at, transfer)) {
          const std::uint64_t load = plan.trainers[other].remote_bytes;
          if (other != from && left > load) worst = std::max(worst, left - load);
        }
      }
    }
    CHECK(worst * 100 <= total / plan.trainers.size());
  }
}

TEST_CASE("what a process holds itself does not travel") {
  Model model;
  for (int i = 0; i < 3; ++i) model.add({64, 64}, DType::bf16, i == 0);
  const ToldLayout same = row_layout(model, 4);
  Case at{model, same, same, {}};
  CHECK(at.plan().messages == 0);
  CHECK(at.plan().rounds == 1);
  CHECK(at.plan().generators[3].local_bytes == 2 * 16 * 64 * 2 + 16 * 64 * 33 / 32);
  at.options.colocated = false;
  CHECK(at.plan().messages == 4);
  CHECK(at.plan().generators[3].local_bytes == 0);
}

TEST_CASE("a holder on the same host sends before one elsewhere") {
  Model model;
  model.add({64, 64}, DType::bf16, false);
  const ToldLayout trainer(8, {{1, 2, 6}}, {{shard({0, 64, 0, 64}, 0)}});
  const ToldLayout generator(8, {{4, 5, 7}}, {{shard({0, 64, 0, 64}, 0)}});
  Case at{model, trainer, generator, {}};
  at.options.gpus_per_node = 4;
  for (const Transfer& transfer : at.of_tensor(0)) CHECK(transfer.from == 6);
  CHECK(at.plan().replicated_bytes == 0);
  at.options.gpus_per_node = 0;
  std::set<std::uint32_t> senders;
  for (const Transfer& transfer : at.of_tensor(0)) senders.insert(transfer.from);
  CHECK(senders == std::set<std::uint32_t>{1, 2, 6});
}

TEST_CASE("long replicas are shared like short ones") {
  // More holders than are looked through one by one.
  Model model;
  for (int i = 0; i < 30; ++i) model.add({64, 32u * (1 + static_cast<unsigned>(i) % 5)}, DType::bf16, false);
  const ToldLayout trainer = replicated_layout(model, 50), generator = row_layout(model, 32);
  Case at{model, trainer, generator, {}};
  at.options.colocated = false;
  const Reshard plan = at.plan();
  std::vector<std::uint64_t> loads(50, 0);
  std::vector<Transfer> all;
  for (std::size_t tensor = 0; tensor < 30; ++tensor) {
    const auto transfers = at.of_tensor(tensor);
    all.insert(all.end(), transfers.begin(), transfers.end());
  }
  // One group: the order of tensors is by what was sent before, which is the model's.
  std::uint64_t wrong = 0;
  for (const Transfer& transfer : all) {
    const auto least = std::min_element(loads.begin(), loads.end()) - loads.begin();
    wrong += transfer.from != static_cast<std::uint32_t>(least);
    loads[static_cast<std::size_t>(least)] += wire_bytes(transfer, model.inventory);
  }
  CHECK(wrong == 0);
}

TEST_CASE("stages of a pipeline send at the same time") {
  Model model;
  for (int i = 0; i < 64; ++i) model.add({128, 1024}, DType::bf16, false);
  std::vector<std::vector<Shard>> shards;
  for (std::uint32_t i = 0; i < 64; ++i) shards.push_back({shard({0, 128, 0, 1024}, i / 16)});
  const ToldLayout trainer(4, {{0}, {1}, {2}, {3}}, shards), generator = row_layout(model, 8);
  Case at{model, trainer, generator, {}};
  at.options.colocated = false;
  at.options.round_bytes = 1 << 20;
  const Reshard plan = at.plan();
  // Each stage has 4 MiB to send, 1 MiB a round.
  CHECK(plan.rounds == 4);
}

TEST_CASE("rows of quantized tensors are cut between tiles of 128") {
  Model model;
  model.add({1000, 1024}, DType::bf16, true);
  const ToldLayout trainer = replicated_layout(model, 1), generator = replicated_layout(model, 2);
  Case at{model, trainer, generator, {}};
  at.options.colocated = false;
  at.options.round_bytes = 1 << 20;
  const auto transfers = at.of_tensor(0);
  CHECK(transfers.size() > 6);
  for (const Transfer& transfer : transfers) {
    CHECK(transfer.box.row % 128 == 0);
    CHECK(at.aligned(transfer) <= at.options.round_bytes / 4 + 1024);
  }
}

TEST_CASE("columns that cut blocks make the receiver quantize, and the plan says which tensors") {
  Model model;
  for (int i = 0; i < 3; ++i) model.add({32, 96}, DType::bf16, i > 0);
  const std::vector<Shard> halves = {shard({0, 32, 0, 48}, 0), shard({0, 32, 48, 48}, 1)};
  const std::vector<Shard> blocks = {shard({0, 32, 0, 32}, 0), shard({0, 32, 32, 64}, 1)};
  const ToldLayout trainer(2, {{0}, {1}}, {halves, halves, blocks}), generator = replicated_layout(model, 2);
  Case at{model, trainer, generator, {}};
  const Reshard plan = at.plan();
  CHECK(plan.late_quantized_tensors == 1);
  REQUIRE(plan.notes.size() == 1);
  CHECK(plan.notes[0].find("t1 is quantized by the receiver") == 0);
  CHECK(at.of_tensor(0)[0].form == Form::as_is);
  CHECK(at.of_tensor(1)[0].form == Form::quantized_late);
  CHECK(at.of_tensor(2)[0].form == Form::quantized);
  CHECK(wire_bytes({1, {0, 32, 0, 48}, 0, 0, 0, Form::quantized_late}, model.inventory) == 32 * 48 * 2);
  CHECK(wire_bytes({2, {0, 32, 0, 32}, 0, 0, 0, Form::quantized}, model.inventory) == 32 * 33);
  at.options.prequantize = false;
  CHECK(at.plan().late_quantized_tensors == 2);
  CHECK(at.of_tensor(2)[0].form == Form::quantized_late);
}

TEST_CASE("whatever a plan depends on changes its digest") {
  Model model;
  for (int i = 0; i < 3; ++i) model.add({64, 64}, DType::bf16, false);
  const ToldLayout four = row_layout(model, 4), two = row_layout(model, 2), all = replicated_layout(model, 4);
  std::set<std::uint64_t> digests;
  std::size_t plans = 0;
  const auto add = [&](const Case& at) {
    digests.insert(at.plan().digest);
    ++plans;
  };
  const Options usual;
  add({model, four, two, usual});
  add({model, two, four, usual});
  add({model, four, all, usual});
  add({model, all, four, usual});
  add({model, all, all, usual});
  for (int option = 0; option < 5; ++option) {
    Options changed;
    if (option == 0) changed.colocated = false;
    if (option == 1) changed.prequantize = false;
    if (option == 2) changed.round_bytes += 1;
    if (option == 3) changed.gpus_per_node = 4;
    if (option == 4) changed.stage_local = true;
    add({model, four, two, changed});
  }
  Model other = model;
  other.quantized[1] = true;
  add({other, four, two, usual});
  other = model;
  other.inventory.tensors[1].spec.name = "u";
  add({other, four, two, usual});
  other = model;
  other.inventory.tensors[1].spec.dtype = DType::f16;
  add({other, four, two, usual});
  CHECK(digests.size() == plans);
}

TEST_CASE("a plan that cannot be is refused with its numbers") {
  Model model;
  model.add({64, 4096}, DType::bf16, false);
  const ToldLayout two = row_layout(model, 2), all = replicated_layout(model, 4);
  Case at{model, all, two, {}};
  at.options.round_bytes = 8191;
  check_input_error([&] { (void)at.plan(); }, "round of 8191 bytes is too small", "t0", "8192");
  at.options.round_bytes = 8192;
  CHECK(at.plan().rounds > 0);
  at.options.round_bytes = 0;
  check_input_error([&] { (void)at.plan(); }, "0 bytes");
  at.options = {};
  check_input_error([&] { (void)at.plan(4, {}); }, "no trainer rank 4");
  check_input_error([&] { (void)at.plan({}, 2); }, "no generator rank 2");
  Model flags = model;
  flags.quantized.push_back(true);
  check_input_error([&] { (void)Case{flags, all, two, {}}.plan(); }, "not 2");
  const ToldLayout gap(1, {{0}}, {{shard({0, 63, 0, 4096}, 0)}});
  check_input_error([&] { (void)Case{model, gap, two, {}}.plan(); }, "t0", "131072", "126976");
}

TEST_CASE("boxes meet where both are") {
  const Box a{0, 10, 0, 10};
  CHECK(intersection(a, {5, 10, 8, 10}) == Box{5, 5, 8, 2});
  CHECK(intersection(a, a) == a);
  CHECK(intersection(a, {10, 1, 0, 1}) == Box{});
  CHECK(intersection(a, {0, 1, 10, 1}) == Box{});
}
