// From a mapped checkpoint straight into the trainer's memory.
#include "run/first_weights.hpp"

#include <fmt/format.h>

#include "refit/base/error.hpp"
#include "refit/checkpoint/checkpoint.hpp"

namespace refit::run {
namespace {

bool may_be_cut(model::Kind kind) {
  return kind == model::Kind::embedding || kind == model::Kind::lm_head;
}

void check(const checkpoint::Checkpoint& checkpoint, const checkpoint::Checkpoint::Tensor& tensor,
           const plan::Source& source) {
  const TensorSpec &has = tensor.spec, &due = source.spec;
  if (has.dtype != due.dtype) {
    fail_input(fmt::format("{}: is {}, and {} by the model's config.json; refit moves weights as they are",
                           checkpoint.place(tensor), name_of(has.dtype), name_of(due.dtype)));
  }
  const bool cut = may_be_cut(source.kind) && has.shape.size() == 2 && due.shape.size() == 2 &&
                   has.shape[1] == due.shape[1] && has.shape[0] > due.shape[0];
  if (has.shape == due.shape || cut) return;
  fail_input(fmt::format("{}: has shape {}, and {} by the model's config.json", checkpoint.place(tensor),
                         to_string(has.shape), to_string(due.shape)));
}

}  // namespace

void make_first_weights(const BenchSpec& spec, const plan::Plan& plan, device::Backend& backend,
                        std::span<std::byte> sources) {
  if (spec.checkpoint.empty()) {
    backend.fill_weights(device::weight_boxes(plan, sources), spec.seed);
    return;
  }
  const auto checkpoint = checkpoint::Checkpoint::open(spec.checkpoint);
  for (const plan::Source& source : plan.sources) {  // all of them, before the first is copied
    check(checkpoint, checkpoint.at(source.spec.name), source);
  }
  checkpoint::read_unchanged({&checkpoint}, [&] {
    for (const plan::Source& source : plan.sources) {
      const auto bytes = checkpoint.data(checkpoint.at(source.spec.name));
      backend.write(sources.data() + source.offset, bytes.first(source.spec.bytes()));
    }
  });
}

}  // namespace refit::run
