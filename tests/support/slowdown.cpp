// A slowdown that is planted from outside: REFIT_TEST_SLOWDOWN="treatment:10%". In the test build alone.
#include "support/slowdown.hpp"

#include <cstdlib>
#include <string>

#include "refit/base/error.hpp"
#include "refit/gate/gate.hpp"

namespace refit::test {

void hold_up(run::BenchSpec& spec) {
  constexpr const char* kVariable = "REFIT_TEST_SLOWDOWN";
  const char* const value = std::getenv(kVariable);
  if (value == nullptr) return;
  const std::string text = value;
  const std::size_t colon = text.find(':');
  const std::string arm = text.substr(0, colon);
  if (colon == text.npos || (arm != "control" && arm != "treatment")) {
    fail_input(std::string(kVariable) + ": \"" + text + "\" is not ARM:SHARE, such as treatment:10%");
  }
  (arm == "control" ? spec.control_held_up : spec.treatment_held_up) =
      gate::parse_share(text.substr(colon + 1), kVariable);
}

}  // namespace refit::test
