// Names and numbers of a rank, and the assembly of what it holds.
#include "reshard/megatron_layout.hpp"

#include <utility>

#include "reshard/megatron_assembly.hpp"

namespace refit::reshard {
namespace {

/// Megatron-Core pads a vocabulary to a multiple of make_vocab_size_divisible_by * tp.
constexpr std::uint64_t kVocabularySizeDivisibleBy = 128;

}  // namespace

MegatronLayout::MegatronLayout(const model::Inventory& model, Parallelism parallelism)
    : DividedLayout(
          model, parallelism,
          {.side = Side::trainer, .vocabulary_multiple = kVocabularySizeDivisibleBy * parallelism.tp}, {}),
      contents_(layer_contents(model)) {}

MegatronPlace MegatronLayout::place_of(const model::Tensor& tensor, const Coordinates& at) const {
  LocalNumbers numbers;
  numbers.output_copy = parallelism_.pp > 1 && at.pp + 1 == parallelism_.pp;
  if (tensor.expert >= 0) {
    numbers.expert = static_cast<std::uint64_t>(tensor.expert) - at.ep * experts_per_rank();
  }
  if (tensor.layer < 0) return megatron_place(tensor, {}, model().dims, numbers);
  numbers.layer = stages().local_index(tensor.layer);
  return megatron_place(tensor, contents_[static_cast<std::size_t>(tensor.layer)], model().dims, numbers);
}

Local MegatronLayout::local(std::uint32_t rank) const {
  const Coordinates at = coordinates_of(parallelism_, rank);
  MegatronAssembly assembly(model(), parallelism_.tp, kv_heads_per_rank());
  for_each_holding(rank, [&](const Holding& holding) {
    assembly.add(place_of(model().tensors[holding.tensor], at), holding);
  });
  return assembly.take();
}

}  // namespace refit::reshard
