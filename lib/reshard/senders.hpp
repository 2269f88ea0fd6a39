// Which of the ranks that hold a box sends it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "reshard/problem.hpp"

namespace refit::reshard {

class Senders {
 public:
  explicit Senders(const Problem& problem);

  /// Adds `bytes` for each of `receivers` who have one possible sender alone. All of a plan's boxes come here
  /// before the first choice.
  void count_forced(std::uint32_t holders, const std::vector<std::uint32_t>& receivers, std::uint64_t bytes);

  struct Sender {
    std::uint32_t rank = 0;
    bool chosen = false;  ///< there were others
  };
  /// The sender of a box of `bytes` to rank `to`, which counts for the choices that follow.
  [[nodiscard]] Sender choose(std::uint32_t holders, std::uint32_t to, std::uint64_t bytes);

  [[nodiscard]] bool is_local(std::uint32_t from, std::uint32_t to) const noexcept {
    return colocated_ && from == to;
  }

 private:
  using Ranks = std::span<const std::uint32_t>;
  using Loaded = std::pair<std::uint64_t, std::uint32_t>;  ///< bytes, rank

  [[nodiscard]] Ranks candidates(std::uint32_t holders, std::uint32_t to) const;
  [[nodiscard]] std::uint32_t least_loaded(Ranks ranks);
  [[nodiscard]] std::uint32_t least_of_many(Ranks ranks);

  const std::vector<std::vector<std::uint32_t>>& groups_;
  const bool colocated_;
  const std::uint32_t gpus_per_node_;
  std::vector<std::uint64_t> loads_;  ///< of each trainer rank, remote bytes
  std::map<std::pair<const std::uint32_t*, std::size_t>, std::vector<Loaded>> heaps_;
};

}  // namespace refit::reshard
