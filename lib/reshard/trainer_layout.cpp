// A trainer's layout by its form.
#include <fmt/format.h>

#include <utility>

#include "refit/base/error.hpp"
#include "refit/reshard/layout.hpp"
#include "reshard/fsdp_layout.hpp"
#include "reshard/megatron_layout.hpp"
#include "reshard/parallelism.hpp"

namespace refit::reshard {

std::unique_ptr<Layout> trainer_layout(const model::Inventory& model, Parallelism parallelism,
                                       TrainerForm form) {
  if (form == TrainerForm::megatron) {
    if (parallelism.fsdp > 1) {
      fail_input(fmt::format("trainer {}: fsdp={} keeps the checkpoint's own tensors, not Megatron's",
                             to_string(parallelism), parallelism.fsdp));
    }
    return std::make_unique<MegatronLayout>(model, std::move(parallelism));
  }
  if (parallelism.fsdp > 1) return std::make_unique<FsdpLayout>(model, std::move(parallelism));
  return std::make_unique<DividedLayout>(model, std::move(parallelism), Rules{.side = Side::trainer},
                                         std::vector<bool>{});
}

}  // namespace refit::reshard
