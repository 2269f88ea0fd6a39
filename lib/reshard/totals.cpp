// What is counted of a plan, and which transfers of it are kept.
#include "reshard/totals.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "refit/base/error.hpp"
#include "refit/base/printable.hpp"

namespace refit::reshard {
namespace {

/// Of trainer and generator ranks: 768 MiB of tables.
constexpr std::uint64_t kMostPairs = std::uint64_t{1} << 26;

std::uint64_t pairs_of(const Problem& problem) {
  const std::uint64_t trainers = problem.trainer.ranks(), generators = problem.generator.ranks();
  if (trainers * generators > kMostPairs) {
    fail_input(
        fmt::format("a plan from {} trainer ranks to {} generator ranks has more than {} pairs of them",
                    trainers, generators, kMostPairs));
  }
  return trainers * generators;
}

void digest_model(const Problem& problem, WordDigest& digest) {
  for (std::size_t i = 0; i < problem.model.tensors.size(); ++i) {
    const TensorSpec& spec = problem.model.tensors[i].spec;
    digest.add(digest_text(spec.name), spec.dtype, spec.rows(), spec.cols(),
               i < problem.quantized.size() && problem.quantized[i]);
  }
}

void digest_layout(const Layout& layout, std::size_t tensors, WordDigest& digest) {
  const Parallelism& sizes = layout.parallelism();
  digest.add(sizes.tp, sizes.pp, sizes.dp, sizes.ep, sizes.etp, sizes.fsdp, sizes.pp_layers.size());
  for (const std::uint32_t layers : sizes.pp_layers) digest.add(layers);
  for (const auto& group : layout.groups()) {
    digest.add(group.size());
    for (const std::uint32_t rank : group) digest.add(rank);
  }
  std::vector<Shard> shards;
  for (std::size_t tensor = 0; tensor < tensors; ++tensor) {
    layout.shards(static_cast<std::uint32_t>(tensor), shards);
    digest.add(shards.size());
    for (const auto& [box, holders] : shards) digest.add(box.row, box.rows, box.col, box.cols, holders);
  }
}

}  // namespace

Totals::Totals(const Problem& problem, std::optional<std::uint32_t> trainer_rank,
               std::optional<std::uint32_t> generator_rank)
    : problem_(problem),
      trainer_rank_(trainer_rank),
      generator_rank_(generator_rank),
      last_rounds_(pairs_of(problem), kNoRound),
      late_(problem.model.tensors.size(), false) {
  plan_.options = problem.options;
  plan_.trainers.resize(problem.trainer.ranks());
  plan_.generators.resize(problem.generator.ranks());
  plan_.links.resize(last_rounds_.size(), 0);
  const Options& options = problem.options;
  digest_.add(options.colocated, options.prequantize, options.stage_local, options.round_bytes,
              options.gpus_per_node);
  digest_model(problem, digest_);
  digest_layout(problem.trainer, problem.model.tensors.size(), digest_);
  digest_layout(problem.generator, problem.model.tensors.size(), digest_);
}

void Totals::visit(const Move& move) {
  const Transfer& transfer = move.transfer;
  RankTotals& from = plan_.trainers[transfer.from];
  RankTotals& to = plan_.generators[transfer.to];
  ++plan_.transfers;
  ++from.transfers;
  ++to.transfers;
  if (move.local) {
    from.local_bytes += move.bytes;
    to.local_bytes += move.bytes;
  } else {
    from.remote_bytes += move.bytes;
    to.remote_bytes += move.bytes;
    if (move.chosen) plan_.replicated_bytes += move.bytes;
    plan_.links[std::size_t{transfer.from} * plan_.generators.size() + transfer.to] += move.bytes;
    count_message(transfer);
  }
  plan_.rounds = transfer.round + 1;
  if (transfer.form == Form::quantized_late) late_[transfer.tensor] = true;
  const Box& box = transfer.box;
  digest_.add(transfer.tensor, std::uint64_t{transfer.from} << 32 | transfer.to,
              std::uint64_t{transfer.round} << 8 | static_cast<std::uint64_t>(transfer.form), box.row,
              box.rows, box.col, box.cols);
  if (transfer.from == trainer_rank_) plan_.sends.push_back(transfer);
  if (transfer.to == generator_rank_) plan_.receives.push_back(transfer);
}

void Totals::count_message(const Transfer& transfer) {
  std::uint32_t& last = last_rounds_[std::size_t{transfer.from} * plan_.generators.size() + transfer.to];
  if (last == transfer.round) return;
  last = transfer.round;
  ++plan_.messages;
  ++plan_.trainers[transfer.from].messages;
  ++plan_.generators[transfer.to].messages;
}

std::string Totals::late_note() const {
  const auto first = std::find(late_.begin(), late_.end(), true) - late_.begin();
  const std::string name = printable(problem_.model.tensors[static_cast<std::size_t>(first)].spec.name);
  const std::string_view why = problem_.options.prequantize
                                   ? "trainer ranks hold parts of their blocks of 32 columns"
                                   : "quantizing before the transfer is off";
  if (plan_.late_quantized_tensors == 1) {
    return fmt::format("{} is quantized by the receiver: {}", name, why);
  }
  return fmt::format("{} and {} more tensors are quantized by the receiver: {}", name,
                     plan_.late_quantized_tensors - 1, why);
}

Reshard Totals::finish(const Swept& swept) {
  for (std::size_t rank = 0; rank < plan_.trainers.size(); ++rank) {
    plan_.trainers[rank].largest_round = swept.largest_sent[rank];
  }
  for (std::size_t rank = 0; rank < plan_.generators.size(); ++rank) {
    plan_.generators[rank].largest_round = swept.largest_received[rank];
  }
  for (const Layout* layout : {&problem_.trainer, &problem_.generator}) {
    plan_.notes.insert(plan_.notes.end(), layout->notes().begin(), layout->notes().end());
  }
  plan_.late_quantized_tensors = static_cast<std::uint64_t>(std::count(late_.begin(), late_.end(), true));
  if (plan_.late_quantized_tensors > 0) plan_.notes.push_back(late_note());
  plan_.digest = digest_.value();
  return std::move(plan_);
}

}  // namespace refit::reshard
