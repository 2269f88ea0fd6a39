// One more way to look at the walk over all transfers.
#include "refit/reshard/loads.hpp"

#include <algorithm>

#include "refit/quant/mxfp8.hpp"
#include "refit/reshard/summary.hpp"
#include "reshard/sweep.hpp"

namespace refit::reshard {
namespace {

class Loading final : public Visitor {
 public:
  explicit Loading(const Problem& problem)
      : problem_(problem),
        sends_to_(std::size_t{problem.trainer.ranks()} * problem.generator.ranks(), false) {
    loads.trainers = problem.trainer.ranks();
    loads.generators = problem.generator.ranks();
  }

  void visit(const Move& move) override {
    const Transfer& transfer = move.transfer;
    begin(transfer.round);
    SendLoad& send = loads.sends[std::size_t{transfer.round} * loads.trainers + transfer.from];
    ReceiveLoad& receive = loads.receives[std::size_t{transfer.round} * loads.generators + transfer.to];
    const std::uint64_t elements = transfer.box.elements();
    const std::uint64_t source = elements * size_of(problem_.model.tensors[transfer.tensor].spec.dtype);
    const std::uint64_t parameter =
        transfer.form == Form::quantized_late ? elements + elements / quant::kBlock : move.bytes;
    if (move.local) {
      ++receive.own_boxes;
      receive.own_bytes += source + parameter;
      return;
    }
    ++send.boxes;
    if (transfer.form == Form::quantized) ++send.quantized;
    send.pack_bytes += source + move.bytes;
    ++receive.boxes;
    if (transfer.form == Form::quantized_late) ++receive.late;
    receive.place_bytes += move.bytes + parameter;
    const bool near = link_between(transfer.from, transfer.to, problem_.options) == Link::host;
    (near ? send.host_bytes : send.network_bytes) += move.bytes;
    (near ? receive.host_bytes : receive.network_bytes) += move.bytes;
    sends_to_[std::size_t{transfer.to} * loads.trainers + transfer.from] = true;
  }

  Loads finish() {
    loads.senders.resize(loads.generators);
    for (std::uint32_t to = 0; to < loads.generators; ++to) {
      for (std::uint32_t from = 0; from < loads.trainers; ++from) {
        if (sends_to_[std::size_t{to} * loads.trainers + from]) loads.senders[to].push_back(from);
      }
    }
    return std::move(loads);
  }

  Loads loads;

 private:
  void begin(std::uint32_t round) {
    if (round < loads.rounds) return;
    loads.rounds = round + 1;
    loads.sends.resize(std::size_t{loads.rounds} * loads.trainers);
    loads.receives.resize(std::size_t{loads.rounds} * loads.generators);
  }

  const Problem& problem_;
  std::vector<bool> sends_to_;
};

}  // namespace

Loads loads(const model::Inventory& model, const std::vector<bool>& quantized, const Layout& trainer,
            const Layout& generator, const Options& options) {
  const Problem problem{model, quantized, trainer, generator, options};
  Loading loading(problem);
  sweep(problem, loading);
  return loading.finish();
}

}  // namespace refit::reshard
