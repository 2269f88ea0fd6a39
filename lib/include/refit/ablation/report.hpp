// An ablation for machines (schema refit-ablation/1) and for people. What was measured and what was projected
// are two tables that share no number.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "refit/ablation/ablation.hpp"

namespace refit::ablation {

/// One timer, its name NeMo-RL's.
struct Phase {
  std::string name;
  /// Seconds of the control: projected, or the median of the bench with everything on.
  std::optional<double> control_s;
  Attribution attribution;
};

/// One two-arm bench, control against combination.
struct Bench {
  Subset subset = 0;
  std::string result;  ///< refit-bench/1
};

struct Measured {
  std::vector<Phase> phases;
  std::vector<Bench> benches;
};

struct Projected {
  std::string platform, stack;        ///< names
  std::vector<std::string> rests_on;  ///< how many figures of which basis: sentences
  std::vector<std::string> assumed;   ///< sentences
  std::vector<Phase> phases;
};

struct Result {
  std::string scenario;
  Method method = Method::shapley;
  std::vector<Factor> factors;
  std::vector<Setting> left_out;  ///< differ between the arms and are of no factor
  std::optional<Measured> measured;
  std::optional<Projected> projected;
};

/// refit-ablation/1, one object, ending in a newline.
[[nodiscard]] std::string to_json(const Result& result);
/// A table for each phase, measured and projected apart.
[[nodiscard]] std::string to_text(const Result& result);

}  // namespace refit::ablation
