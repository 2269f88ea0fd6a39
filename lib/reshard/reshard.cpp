// The plan of many ranks: one walk over all transfers, looked at in two ways.
#include "refit/reshard/reshard.hpp"

#include <fmt/format.h>

#include <string_view>

#include "refit/base/error.hpp"
#include "reshard/sweep.hpp"
#include "reshard/totals.hpp"

namespace refit::reshard {
namespace {

void check_rank(std::optional<std::uint32_t> rank, const Layout& layout, std::string_view side) {
  if (!rank || *rank < layout.ranks()) return;
  fail_input(
      fmt::format("there is no {} rank {}: there are {}, counted from 0", side, *rank, layout.ranks()));
}

class OfTensor final : public Visitor {
 public:
  explicit OfTensor(std::uint32_t tensor) : tensor_(tensor) {}
  void visit(const Move& move) override {
    if (move.transfer.tensor == tensor_) transfers.push_back(move.transfer);
  }
  std::vector<Transfer> transfers;

 private:
  const std::uint32_t tensor_;
};

}  // namespace

std::uint64_t wire_bytes(const Transfer& transfer, const model::Inventory& model) {
  return box_bytes(transfer.box.elements(), transfer.form, model.tensors[transfer.tensor].spec.dtype).wire();
}

Reshard reshard(const model::Inventory& model, const std::vector<bool>& quantized, const Layout& trainer,
                const Layout& generator, const Options& options, std::optional<std::uint32_t> trainer_rank,
                std::optional<std::uint32_t> generator_rank) {
  check_rank(trainer_rank, trainer, "trainer");
  check_rank(generator_rank, generator, "generator");
  const Problem problem{model, quantized, trainer, generator, options};
  Totals totals(problem, trainer_rank, generator_rank);
  return totals.finish(sweep(problem, totals));
}

std::vector<Transfer> explain(const model::Inventory& model, const std::vector<bool>& quantized,
                              const Layout& trainer, const Layout& generator, const Options& options,
                              std::uint32_t tensor) {
  OfTensor of_tensor(tensor);
  sweep({model, quantized, trainer, generator, options}, of_tensor);
  return of_tensor.transfers;
}

}  // namespace refit::reshard
