// vLLM and SGLang: the checkpoint's tensors, divided, and the model that one rank's engine sees.
#include <utility>

#include "refit/base/error.hpp"
#include "refit/reshard/layout.hpp"
#include "reshard/divided_layout.hpp"

namespace refit::reshard {
namespace {

class GeneratorLayout : public DividedLayout {
 public:
  GeneratorLayout(const model::Inventory& model, Parallelism parallelism, const std::vector<bool>& quantized)
      : DividedLayout(model, std::move(parallelism),
                      {.side = Side::generator,
                       .vocabulary_multiple = model::kEngineVocabularyMultiple,
                       .replicates_kv_heads = true,
                       .remainder = Remainder::before_the_last},
                      quantized) {}

  [[nodiscard]] Local local(std::uint32_t rank) const override {
    Local local = ShardedLayout::local(rank);
    const Coordinates at = coordinates_of(parallelism_, rank);
    local.model.architecture = model().architecture;
    local.model.model_type = model().model_type;
    local.model.dims = dimensions(at);
    std::vector<model::Tensor>& tensors = local.model.tensors;
    tensors.reserve(local.tensors.size());
    for_each_holding(rank, [&](const Holding& holding) {
      model::Tensor tensor = model().tensors[holding.tensor];
      tensor.spec.shape = local.tensors[tensors.size()].shape;
      if (padded_rows(holding.tensor, rank) > 0) tensor.spec.shape[0] = holding.box_rows();
      if (tensor.expert >= 0) tensor.expert -= static_cast<int>(at.ep * experts_per_rank());
      tensors.push_back(std::move(tensor));
    });
    return local;
  }

 private:
  [[nodiscard]] model::Dimensions dimensions(const Coordinates& at) const {
    model::Dimensions dims = model().dims;
    dims.layers = parallelism_.pp_layers[at.pp];
    dims.vocab = vocabulary_box({.name = {}, .shape = {dims.vocab}, .dtype = {}}, at.tp).rows;
    dims.heads /= parallelism_.tp;
    dims.kv_heads = kv_heads_per_rank();
    dims.intermediate /= parallelism_.tp;
    dims.experts = experts_per_rank();
    dims.expert_intermediate /= parallelism_.etp;
    return dims;
  }
};

}  // namespace

std::unique_ptr<Layout> generator_layout(const model::Inventory& model, Parallelism parallelism,
                                         const std::vector<bool>& quantized) {
  if (parallelism.fsdp > 1) {
    fail_input("a generator divides no tensors by fsdp: it is one of the trainer's sizes");
  }
  return std::make_unique<GeneratorLayout>(model, std::move(parallelism), quantized);
}

}  // namespace refit::reshard
