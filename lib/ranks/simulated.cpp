// Weights of a round's boxes, packed as their trainers would pack them.
#include "ranks/simulated.hpp"

#include <algorithm>
#include <utility>

#include "ranks/tasks.hpp"
#include "refit/base/bytes.hpp"
#include "refit/base/error.hpp"
#include "refit/plan/wire.hpp"

namespace refit::ranks {
namespace {

struct Sizes {
  std::uint64_t received = 0, weights = 0;  ///< all rounds; the largest one
};

std::uint64_t weight_bytes(const Item& item, const model::Inventory& model) {
  const reshard::Transfer& transfer = *item.transfer;
  return align_up(transfer.box.elements() * size_of(model.tensors[transfer.tensor].spec.dtype),
                  plan::kWireAlignment);
}

Sizes sizes_of(const std::vector<Round>& rounds, const model::Inventory& model) {
  Sizes sizes;
  for (const Round& round : rounds) {
    std::uint64_t weights = 0;
    for (const Message& message : round.receive.messages) {
      for (const Item& item : message.items) weights += weight_bytes(item, model);
    }
    sizes.received += align_up(round.receive.bytes, plan::kWireAlignment);
    sizes.weights = std::max(sizes.weights, weights);
  }
  return sizes;
}

}  // namespace

SimulatedPeers::SimulatedPeers(std::vector<Round> rounds, const model::Inventory& model,
                               device::Backend& backend, const quant::Options& options)
    : rounds_(std::move(rounds)), model_(model), backend_(backend), options_(options) {
  std::uint64_t end = 0;
  for (const Round& round : rounds_) {
    offsets_.push_back(end);
    end += align_up(round.receive.bytes, plan::kWireAlignment);
  }
}

std::uint64_t SimulatedPeers::memory_needed(const std::vector<Round>& rounds, const model::Inventory& model) {
  const Sizes sizes = sizes_of(rounds, model);
  return sizes.received + sizes.weights;
}

void SimulatedPeers::begin(std::uint64_t seed, std::uint64_t step, Deadline deadline) {
  next_ = 0;
  if (sent_ != nullptr && step_ == step) return;
  const Sizes sizes = sizes_of(rounds_, model_);
  if (sent_ == nullptr) sent_ = backend_.scratch(sizes.received, "what the other ranks send");
  const auto weights = backend_.scratch(sizes.weights, "the other ranks' weights of one round");
  for (std::size_t round = 0; round < rounds_.size(); ++round) make(round, weights->bytes(), seed, step);
  backend_.finish(deadline);  // before the weights go
  step_ = step;
}

void SimulatedPeers::make(std::size_t round, std::span<std::byte> weights, std::uint64_t seed,
                          std::uint64_t step) {
  std::vector<device::WeightBox> boxes;
  std::vector<device::Task> tasks;
  std::uint64_t used = 0;
  for (const Message& message : rounds_[round].receive.messages) {
    for (const Item& item : message.items) {
      const reshard::Box& box = item.transfer->box;
      const TensorSpec& tensor = model_.tensors[item.transfer->tensor].spec;
      const std::uint64_t pitch = box.cols * size_of(tensor.dtype);
      std::byte* const at = weights.data() + used;
      boxes.push_back({&tensor, box.row, box.rows, box.col, box.cols, at, pitch});
      tasks.push_back(pack_piece(tensor, *item.transfer, {box, {.values = at, .pitch = pitch}},
                                 sent_in(round) + item.values, sent_in(round) + item.scales, options_));
      used += weight_bytes(item, model_);
    }
  }
  if (boxes.empty()) return;
  backend_.fill_weights(boxes, seed);
  for (std::uint64_t s = 1; s <= step; ++s) backend_.update_weights(boxes, seed, s);
  backend_.run(tasks);
}

ByPeer SimulatedPeers::digests() {
  ByPeer digests;
  for (std::size_t round = 0; round < rounds_.size(); ++round) {
    add_digests(backend_, rounds_[round].receive, sent_in(round), digests);
  }
  return digests;
}

void SimulatedPeers::start(unsigned slot, std::span<const transport::Part>,
                           std::span<const transport::Part> receives) {
  const Parcel& parcel = rounds_.at(next_).receive;
  std::vector<device::PeerCopy> copies;
  for (std::size_t i = 0; i < receives.size(); ++i) {
    const Message& message = parcel.messages.at(i);
    if (message.peer != receives[i].peer || message.bytes != receives[i].bytes.size()) {
      fail_runtime("a simulated rank was to receive another message than its plan has");
    }
    copies.push_back({receives[i].bytes.data(), sent_in(next_) + message.offset, message.bytes});
  }
  copies_.at(slot) = copies.empty() ? 0 : backend_.copy_to_peers(copies);
  ++next_;
}

void SimulatedPeers::wait(unsigned slot, Deadline) {
  if (copies_.at(slot) > 0) backend_.after_copies(copies_.at(slot));
}

}  // namespace refit::ranks
