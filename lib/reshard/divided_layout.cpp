// Boxes by the table of splits, holders by stage and part. Nothing is kept of a tensor but its row of
// numbers.
#include "reshard/divided_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "refit/base/error.hpp"
#include "reshard/divisible.hpp"
#include "reshard/parallelism.hpp"

namespace refit::reshard {
namespace {

using model::Kind;
using model::Split;
using model::Tensor;

void append(std::vector<Shard>& shards, const Box& box, std::uint32_t holders) {
  if (!box.empty()) shards.push_back({.box = box, .holders = holders});
}

/// The part of `box` that is `index` of `count` equal ones.
Box rows_part(Box box, std::uint64_t index, std::uint64_t count) {
  box.rows /= count;
  box.row += index * box.rows;
  return box;
}

/// `box` in `count` equal parts, held by holders(0), holders(1) ...
template <class HoldersOf>
void append_rows(std::vector<Shard>& shards, const Box& box, std::uint64_t count, HoldersOf&& holders) {
  Box part = rows_part(box, 0, count);
  for (std::uint64_t i = 0; i < count; ++i, part.row += part.rows) append(shards, part, holders(i));
}

template <class HoldersOf>
void append_columns(std::vector<Shard>& shards, const Box& box, std::uint64_t count, HoldersOf&& holders) {
  Box part = box;
  part.cols /= count;
  for (std::uint64_t i = 0; i < count; ++i, part.col += part.cols) append(shards, part, holders(i));
}

Box whole_of(const TensorSpec& spec) {
  return {.row = 0, .rows = spec.rows(), .col = 0, .cols = spec.cols()};
}

}  // namespace

DividedLayout::DividedLayout(const model::Inventory& model, Parallelism parallelism, const Rules& rules,
                             const std::vector<bool>& quantized)
    : ShardedLayout(model, std::move(parallelism)), rules_(rules) {
  const std::string what = fmt::format("{} {}", name_of(rules.side), to_string(parallelism_));
  check(parallelism_, what);
  stages_.emplace(model, parallelism_, rules.remainder, what);
  if (!quantized.empty() && quantized.size() != model.tensors.size()) {
    fail_input(fmt::format("{}: {} flags say which of {} tensors are quantized", what, quantized.size(),
                           model.tensors.size()));
  }
  if (rules.vocabulary_multiple > 0) {
    const std::uint64_t padded = model::padded_rows(model.dims.vocab, rules.vocabulary_multiple);
    if (padded % parallelism_.tp != 0) {
      fail_input(fmt::format("{}: a vocabulary of {} rows, padded to {}, does not divide by tp={}", what,
                             model.dims.vocab, padded, parallelism_.tp));
    }
  }
  const Divisible divisible(model.dims, parallelism_, rules.replicates_kv_heads, what);
  divisible.check_model();
  holders_.emplace(parallelism_, kv_replicated() ? static_cast<std::uint32_t>(model.dims.kv_heads) : 0,
                   model.dims.tied_embeddings, groups_);
  entries_.reserve(model.tensors.size());
  for (std::size_t i = 0; i < model.tensors.size(); ++i) {
    const Tensor& tensor = model.tensors[i];
    const Split split = model::split_of(tensor, model.dims);
    divisible.check_tensor(tensor, split, !quantized.empty() && quantized[i]);
    entries_.push_back(
        {.split = split, .routed = model::is_routed_expert(tensor.kind), .home = home_of(tensor)});
  }
  add_notes();
}

bool DividedLayout::kv_replicated() const noexcept {
  const std::uint64_t heads = model().dims.kv_heads;
  return rules_.replicates_kv_heads && heads > 0 && heads < parallelism_.tp;
}

std::uint64_t DividedLayout::kv_heads_per_rank() const noexcept {
  return kv_replicated() ? 1 : model().dims.kv_heads / parallelism_.tp;
}

std::uint32_t DividedLayout::home_of(const Tensor& tensor) const {
  if (tensor.layer >= 0) return stages_->stage_of(tensor.layer);
  if (tensor.kind != Kind::embedding) return parallelism_.pp - 1;
  return model().dims.tied_embeddings ? holders_->ends() : 0;
}

void DividedLayout::add_notes() {
  const auto note = [&](const std::string& text) {
    notes_.push_back(fmt::format("{}: {}", name_of(rules_.side), text));
  };
  const model::Dimensions& dims = model().dims;
  const std::uint64_t tp = parallelism_.tp;
  if (!stages_->note().empty()) note(stages_->note());
  if (kv_replicated()) {
    note(fmt::format("{} key-value heads are fewer than tp={}: each is on {} ranks", dims.kv_heads, tp,
                     tp / dims.kv_heads));
  }
  const std::uint64_t part = vocabulary_part(dims.vocab);
  if (rules_.vocabulary_multiple > 0 && part * tp != dims.vocab) {
    note(fmt::format("the vocabulary's {} rows are padded to {}, {} a rank", dims.vocab, part * tp, part));
  }
  if (dims.tied_embeddings && parallelism_.pp > 1) {
    note("the embedding is also the head, so the first and the last stage hold it");
  }
}

std::uint64_t DividedLayout::vocabulary_part(std::uint64_t rows) const noexcept {
  const std::uint64_t tp = parallelism_.tp;
  return rules_.vocabulary_multiple > 0 ? model::padded_rows(rows, rules_.vocabulary_multiple) / tp
                                        : (rows + tp - 1) / tp;
}

Box DividedLayout::vocabulary_box(const TensorSpec& spec, std::uint64_t tp) const noexcept {
  const std::uint64_t rows = spec.rows(), part = vocabulary_part(rows), begin = std::min(rows, tp * part);
  return {.row = begin, .rows = std::min(part, rows - begin), .col = 0, .cols = spec.cols()};
}

std::uint64_t DividedLayout::padded_rows(std::uint32_t tensor, std::uint32_t rank) const {
  const Entry& entry = entries_[tensor];
  const bool padded = entry.split == Split::vocab_rows && rules_.vocabulary_multiple > 0;
  if (!padded || !holders_->is_home(entry.home, coordinates_of(parallelism_, rank).pp)) return 0;
  return vocabulary_part(model().tensors[tensor].spec.rows());
}

void DividedLayout::shards(std::uint32_t tensor, std::vector<Shard>& shards) const {
  shards.clear();
  const Tensor& which = model().tensors[tensor];
  const Entry& entry = entries_[tensor];
  if (!entry.routed) {
    dense_shards(entry, which.spec, shards);
  } else if (which.expert >= 0) {
    expert_shards(entry, which, shards);
  } else {
    slab_shards(entry, which.spec, shards);
  }
}

void DividedLayout::dense_shards(const Entry& entry, const TensorSpec& spec,
                                 std::vector<Shard>& shards) const {
  const Box whole = whole_of(spec);
  const std::uint64_t tp = parallelism_.tp;
  const auto part = [&](std::uint64_t i) { return holders_->part(entry.home, i); };
  switch (entry.split) {
    case Split::rows:
      return append_rows(shards, whole, tp, part);
    case Split::head_rows:
      if (!kv_replicated()) return append_rows(shards, whole, tp, part);
      return append_rows(shards, whole, model().dims.kv_heads,
                         [&](std::uint64_t head) { return holders_->kv_head(entry.home, head); });
    case Split::vocab_rows:
      for (std::uint64_t i = 0; i < tp; ++i) append(shards, vocabulary_box(spec, i), part(i));
      return;
    case Split::columns:
      return append_columns(shards, whole, tp, part);
    case Split::whole:
    case Split::halves:  // of routed experts alone
    case Split::slab_columns:
    case Split::unknown:
      append(shards, whole, holders_->all(entry.home));
  }
}

void DividedLayout::expert_shards(const Entry& entry, const Tensor& tensor,
                                  std::vector<Shard>& shards) const {
  const std::uint64_t ep = static_cast<std::uint64_t>(tensor.expert) / experts_per_rank();
  const auto part = [&](std::uint64_t i) { return holders_->expert(entry.home, ep, i); };
  const Box whole = whole_of(tensor.spec);
  if (entry.split == Split::columns) return append_columns(shards, whole, parallelism_.etp, part);
  append_rows(shards, whole, parallelism_.etp, part);
}

void DividedLayout::slab_shards(const Entry& entry, const TensorSpec& spec,
                                std::vector<Shard>& shards) const {
  const Box whole = whole_of(spec);
  const std::uint64_t ep = parallelism_.ep, etp = parallelism_.etp;
  for (std::uint64_t rank = 0; rank < ep; ++rank) {
    const auto part = [&](std::uint64_t i) { return holders_->expert(entry.home, rank, i); };
    const Box experts = rows_part(whole, rank, ep);
    if (entry.split != Split::halves || etp == 1) {
      append_columns(shards, experts, etp, part);
      continue;
    }
    const std::uint64_t halves = 2 * experts_per_rank();  // gate, up, gate, up ...
    for (std::uint64_t half = 0; half < halves; ++half) {
      append_rows(shards, rows_part(experts, half, halves), etp, part);
    }
  }
}

}  // namespace refit::reshard
