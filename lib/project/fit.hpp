// Costs of a stack and of hosts that explain published tables best.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "refit/project/validation.hpp"

namespace refit::project {

/// A table with its plans counted, so that it can be replayed often.
struct CountedTable {
  const Table* table = nullptr;
  std::vector<Projector> projectors;  ///< of each scenario
};

/// What a fit decides.
struct Costs {
  Stack stack;
  std::map<std::string, Platform> platforms;
};

/// Seconds projected for a table: the means of its scenarios.
struct Projected {
  double transfer_s = 0, prepare_s = 0;
};
[[nodiscard]] Projected projected(const CountedTable& table, bool control, const Costs& costs);

/// Starts from the priors. A logarithm of a cost varies around its prior by its spread; what one table is off
/// as a whole (another version, another cluster) and what a single figure is off are told apart.
[[nodiscard]] Costs fit(const std::vector<const CountedTable*>& tables, const Costs& priors);

/// What was published for a phase of one arm: the mean of a table's scenarios.
[[nodiscard]] std::optional<double> published(const Table& table, std::string_view phase, bool control);

}  // namespace refit::project
