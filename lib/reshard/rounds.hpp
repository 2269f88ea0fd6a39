// Which round a part belongs to: no rank sends or receives more than a round may hold.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace refit::reshard {

class Rounds {
 public:
  Rounds(std::uint32_t trainers, std::uint32_t generators, std::uint64_t limit);

  struct Send {
    std::uint32_t from = 0;
    std::uint64_t bytes = 0;  ///< aligned
  };
  /// The round in which rank `to` receives all of `sends`, which are at most the limit together. Begins a new
  /// one when a rank has no room left in the last.
  std::uint32_t place(std::uint32_t to, std::span<const Send> sends);

  /// Of each trainer or generator rank: bytes of its largest round.
  [[nodiscard]] std::vector<std::uint64_t> largest_sent() const { return largest(senders_); }
  [[nodiscard]] std::vector<std::uint64_t> largest_received() const { return largest(receivers_); }

 private:
  struct Rank {
    std::uint32_t round = 0;
    std::uint64_t bytes = 0;  ///< in that round
    std::uint64_t largest = 0;
  };
  [[nodiscard]] bool fits(std::uint32_t to, std::span<const Send> sends);
  [[nodiscard]] Rank& in_this_round(Rank& rank) const noexcept;
  [[nodiscard]] static std::vector<std::uint64_t> largest(const std::vector<Rank>& ranks);

  const std::uint64_t limit_;
  std::uint32_t round_ = 0;
  std::vector<Rank> senders_, receivers_;
};

}  // namespace refit::reshard
