// Which round a part belongs to.
#include "reshard/rounds.hpp"

#include <algorithm>

namespace refit::reshard {

Rounds::Rounds(std::uint32_t trainers, std::uint32_t generators, std::uint64_t limit)
    : limit_(limit), senders_(trainers), receivers_(generators) {}

std::uint32_t Rounds::place(std::uint32_t to, std::span<const Send> sends) {
  if (!fits(to, sends)) ++round_;
  Rank& receiver = in_this_round(receivers_[to]);
  for (const Send& send : sends) {
    Rank& sender = in_this_round(senders_[send.from]);
    sender.bytes += send.bytes;
    sender.largest = std::max(sender.largest, sender.bytes);
    receiver.bytes += send.bytes;
  }
  receiver.largest = std::max(receiver.largest, receiver.bytes);
  return round_;
}

bool Rounds::fits(std::uint32_t to, std::span<const Send> sends) {
  std::uint64_t received = in_this_round(receivers_[to]).bytes;
  bool room = true;
  // One rank may send several of them, so each is added before the next is looked at.
  for (const Send& send : sends) {
    received += send.bytes;
    room = (in_this_round(senders_[send.from]).bytes += send.bytes) <= limit_ && room;
  }
  for (const Send& send : sends) senders_[send.from].bytes -= send.bytes;
  return room && received <= limit_;
}

Rounds::Rank& Rounds::in_this_round(Rank& rank) const noexcept {
  if (rank.round != round_) {
    rank.round = round_;
    rank.bytes = 0;
  }
  return rank;
}

std::vector<std::uint64_t> Rounds::largest(const std::vector<Rank>& ranks) {
  std::vector<std::uint64_t> sizes;
  for (const Rank& rank : ranks) sizes.push_back(rank.largest);
  return sizes;
}

}  // namespace refit::reshard
