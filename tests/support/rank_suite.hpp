// What every Group and Exchange has to do, whatever carries it. Every rank calls this; it throws what is
// wrong.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "refit/transport/group.hpp"

namespace refit::test {

inline void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

/// Byte i of the n-th message from one rank to another.
inline std::byte byte_of(std::uint32_t from, std::uint32_t to, std::uint32_t round, std::size_t i) {
  return static_cast<std::byte>((from * 131 + to * 31 + round * 7 + i * 13) & 0xFF);
}

/// Bytes of that message: both ends know it. None at all for one in five.
inline std::size_t size_of_message(std::uint32_t from, std::uint32_t to, std::uint32_t round) {
  std::mt19937 random(from * 10007 + to * 101 + round);
  if (random() % 5 == 0) return 0;
  return random() % 7 == 0 ? 3'000'000 + random() % 1000 : random() % 5000;
}

/// The buffers of one round.
class RoundOfTheSuite {
 public:
  RoundOfTheSuite(const transport::Group& group, std::uint32_t round) : self_(group.rank()), round_(round) {
    for (std::uint32_t peer = 0; peer < group.size(); ++peer) {
      if (peer == self_) continue;
      if (const std::size_t size = size_of_message(self_, peer, round)) {
        out_.emplace_back(peer, std::vector<std::byte>(size));
        for (std::size_t i = 0; i < size; ++i) out_.back().second[i] = byte_of(self_, peer, round, i);
      }
      if (const std::size_t size = size_of_message(peer, self_, round)) {
        in_.emplace_back(peer, std::vector<std::byte>(size, std::byte{0xEE}));
      }
    }
  }
  void start(transport::Exchange& exchange) {
    exchange.start(round_ % transport::Exchange::kSlots, parts(out_), parts(in_));
  }
  void finish(transport::Exchange& exchange, Deadline deadline) {
    exchange.wait(round_ % transport::Exchange::kSlots, deadline);
    for (auto& [peer, bytes] : out_) std::fill(bytes.begin(), bytes.end(), std::byte{0});  // it is ours again
    for (const auto& [peer, bytes] : in_) {
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        if (bytes[i] == byte_of(peer, self_, round_, i)) continue;
        throw std::runtime_error("round " + std::to_string(round_) + ": byte " + std::to_string(i) +
                                 " from rank " + std::to_string(peer) + " to rank " + std::to_string(self_) +
                                 " is another");
      }
    }
  }

 private:
  using Messages = std::vector<std::pair<std::uint32_t, std::vector<std::byte>>>;
  static std::vector<transport::Part> parts(Messages& messages) {
    std::vector<transport::Part> parts;
    for (auto& [peer, bytes] : messages) parts.push_back({peer, bytes});
    return parts;
  }
  std::uint32_t self_, round_;
  Messages out_, in_;
};

inline void check_ranks(transport::Group& group, transport::Exchange& exchange) {
  const auto soon = [] { return Deadline::after(std::chrono::seconds(60)); };
  group.doing("gathering");
  for (std::size_t size : {0, 1, 100, 300'000}) {
    const auto said_by = [&](std::uint32_t rank) {
      return std::string(size == 0 ? rank : size + rank, static_cast<char>('a' + rank % 26));
    };
    const std::vector<std::string> all = group.all_gather(said_by(group.rank()), soon());
    require(all.size() == group.size(), "an all-gather of another number of ranks");
    for (std::uint32_t rank = 0; rank < group.size(); ++rank) {
      require(all[rank] == said_by(rank), "an all-gather has other bytes of rank " + std::to_string(rank));
    }
  }
  group.barrier(soon());
  group.doing("exchanging");
  std::vector<RoundOfTheSuite> rounds;
  for (std::uint32_t round = 0; round < 20; ++round) rounds.emplace_back(group, round);
  for (std::uint32_t round = 0; round < rounds.size(); ++round) {  // two of them under way
    rounds[round].start(exchange);
    if (round > 0) rounds[round - 1].finish(exchange, soon());
  }
  rounds.back().finish(exchange, soon());
  group.barrier(soon());
}

}  // namespace refit::test
