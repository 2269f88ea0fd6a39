// The rounds of one rank: which bytes go to whom, and where in a buffer each box lies.
//
// A message to a peer holds the round's boxes for it in the plan's order, each at a multiple of
// plan::kWireAlignment: values, then the scales of a box that was quantized. Both ends compute the same
// places.
#pragma once

#include <cstdint>
#include <vector>

#include "refit/model/inventory.hpp"
#include "refit/reshard/reshard.hpp"

namespace refit::ranks {

/// A transfer's bytes in a buffer.
struct Item {
  const reshard::Transfer* transfer = nullptr;
  std::uint64_t values = 0, scales = 0;  ///< offsets in the buffer
};

struct Message {
  std::uint32_t peer = 0;  ///< process
  std::uint64_t offset = 0, bytes = 0;
  std::vector<Item> items;
};

/// One side of one round.
struct Parcel {
  std::vector<Message> messages;  ///< by peer
  std::uint64_t bytes = 0;
};

struct Round {
  Parcel send, receive;
  /// What this process itself takes from the send buffer: what stays, behind what is sent; of a broadcast all
  /// that is sent, whose messages list no items, because it is packed once.
  std::vector<Item> own;
};

/// Who is which process.
struct Processes {
  bool colocated = true;
  std::uint32_t trainers = 1;
  [[nodiscard]] std::uint32_t of_trainer(std::uint32_t rank) const noexcept { return rank; }
  [[nodiscard]] std::uint32_t of_generator(std::uint32_t rank) const noexcept {
    return colocated ? rank : trainers + rank;
  }
};

/// `plan` outlives the rounds. With `pack_own`, boxes that stay have room in the send buffer, too.
[[nodiscard]] std::vector<Round> rounds_of(const reshard::Reshard& plan, const model::Inventory& model,
                                           const Processes& processes, bool pack_own);

/// Every box to every process, whoever needs it. `plan` is to one rank that wants everything, and lists what
/// trainer rank `self` (a process) sends and all that the other one receives.
[[nodiscard]] std::vector<Round> broadcast_rounds_of(const reshard::Reshard& plan,
                                                     const model::Inventory& model, std::uint32_t self,
                                                     std::uint32_t processes);

struct RoundSizes {
  std::uint64_t send = 0, receive = 0;  ///< of the largest round
};
[[nodiscard]] RoundSizes largest(const std::vector<Round>& rounds);

}  // namespace refit::ranks
