// Every transfer of a plan, one after the other: the one walk that counting, listing and explaining share.
#pragma once

#include <cstdint>
#include <vector>

#include "reshard/problem.hpp"

namespace refit::reshard {

/// A transfer and what is known of it on the way.
struct Move {
  Transfer transfer;
  std::uint64_t bytes = 0;  ///< on the wire
  bool local = false;       ///< stays in its process
  bool chosen = false;      ///< another rank could have sent it
};

class Visitor {
 public:
  virtual ~Visitor() = default;
  virtual void visit(const Move& move) = 0;
};

struct Swept {
  std::vector<std::uint64_t> largest_sent, largest_received;  ///< aligned bytes of each rank's largest round
};

/// Goes through all transfers by round, always in the same order. Error(input): flags that are not one a
/// tensor, a round that holds no row, a part that no trainer rank holds, a plan too large to make.
Swept sweep(const Problem& problem, Visitor& visitor);

}  // namespace refit::reshard
