// What became of planted faults, for programs.
#pragma once

#include <string>
#include <vector>

namespace refit::audit {

struct Mutant {
  std::string fault, what;
  std::string caught_by;  ///< the check that has to find it
  bool planted = false;   ///< the model and switches have what the fault needs
  std::string found;      ///< what a check said; empty: it survived
};

/// Schema refit-mutants/1 (scenarios/schema/refit-mutants-1.schema.json).
[[nodiscard]] std::string to_json(const std::string& scenario, const std::vector<Mutant>& mutants);

}  // namespace refit::audit
