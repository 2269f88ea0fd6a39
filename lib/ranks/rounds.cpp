// Filling messages in the plan's order.
#include "ranks/rounds.hpp"

#include <algorithm>
#include <map>

#include "refit/base/bytes.hpp"
#include "refit/plan/wire.hpp"
#include "refit/quant/mxfp8.hpp"

namespace refit::ranks {
namespace {

/// Gives an item its place at the end of `used` bytes.
Item place(const reshard::Transfer& transfer, const model::Inventory& model, std::uint64_t& used) {
  Item item{.transfer = &transfer, .values = align_up(used, plan::kWireAlignment)};
  const std::uint64_t elements = transfer.box.elements();
  if (transfer.form != reshard::Form::quantized) {
    used = item.values + elements * size_of(model.tensors[transfer.tensor].spec.dtype);
    return item;
  }
  item.scales = align_up(item.values + elements, plan::kWireAlignment);
  used = item.scales + elements / quant::kBlock;
  return item;
}

/// Messages by peer, one behind the other.
Parcel parcel_of(const std::map<std::uint32_t, std::vector<const reshard::Transfer*>>& by_peer,
                 const model::Inventory& model) {
  Parcel parcel;
  for (const auto& [peer, transfers] : by_peer) {
    Message message{
        .peer = peer, .offset = align_up(parcel.bytes, plan::kWireAlignment), .bytes = 0, .items = {}};
    std::uint64_t used = message.offset;
    for (const reshard::Transfer* transfer : transfers)
      message.items.push_back(place(*transfer, model, used));
    message.bytes = used - message.offset;
    parcel.bytes = used;
    parcel.messages.push_back(std::move(message));
  }
  return parcel;
}

}  // namespace

std::vector<Round> rounds_of(const reshard::Reshard& plan, const model::Inventory& model,
                             const Processes& processes, bool pack_own) {
  using TransfersByPeer = std::map<std::uint32_t, std::vector<const reshard::Transfer*>>;
  std::vector<TransfersByPeer> sends(plan.rounds), receives(plan.rounds);
  std::vector<std::vector<const reshard::Transfer*>> own(plan.rounds);
  for (const reshard::Transfer& transfer : plan.sends) {
    const std::uint32_t to = processes.of_generator(transfer.to);
    if (to == processes.of_trainer(transfer.from)) {
      own[transfer.round].push_back(&transfer);
    } else {
      sends[transfer.round][to].push_back(&transfer);
    }
  }
  for (const reshard::Transfer& transfer : plan.receives) {
    const std::uint32_t from = processes.of_trainer(transfer.from);
    if (from != processes.of_generator(transfer.to)) receives[transfer.round][from].push_back(&transfer);
  }
  std::vector<Round> rounds(plan.rounds);
  for (std::uint32_t r = 0; r < plan.rounds; ++r) {
    Round& round = rounds[r];
    round.send = parcel_of(sends[r], model);
    round.receive = parcel_of(receives[r], model);
    for (const reshard::Transfer* transfer : own[r]) {
      round.own.push_back(pack_own ? place(*transfer, model, round.send.bytes) : Item{.transfer = transfer});
    }
  }
  return rounds;
}

std::vector<Round> broadcast_rounds_of(const reshard::Reshard& plan, const model::Inventory& model,
                                       std::uint32_t self, std::uint32_t processes) {
  std::vector<std::map<std::uint32_t, std::vector<const reshard::Transfer*>>> receives(plan.rounds);
  std::vector<Round> rounds(plan.rounds);
  for (const reshard::Transfer& transfer : plan.sends) {
    Parcel& send = rounds[transfer.round].send;
    rounds[transfer.round].own.push_back(place(transfer, model, send.bytes));
  }
  for (const reshard::Transfer& transfer : plan.receives) {
    if (transfer.from != self) receives[transfer.round][transfer.from].push_back(&transfer);
  }
  for (std::uint32_t r = 0; r < plan.rounds; ++r) {
    Parcel& send = rounds[r].send;
    rounds[r].receive = parcel_of(receives[r], model);
    for (std::uint32_t peer = 0; peer < processes && send.bytes > 0; ++peer) {
      if (peer != self)
        send.messages.push_back({.peer = peer, .offset = 0, .bytes = send.bytes, .items = {}});
    }
  }
  return rounds;
}

RoundSizes largest(const std::vector<Round>& rounds) {
  RoundSizes sizes;
  for (const Round& round : rounds) {
    sizes.send = std::max(sizes.send, round.send.bytes);
    sizes.receive = std::max(sizes.receive, round.receive.bytes);
  }
  return sizes;
}

}  // namespace refit::ranks
