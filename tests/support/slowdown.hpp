// A slowdown that is planted from outside: REFIT_TEST_SLOWDOWN="treatment:10%". In the test build alone.
#pragma once

#include "refit/run/bench.hpp"

namespace refit::test {

/// Nothing without the variable; Error(input) for another value than ARM:SHARE.
void hold_up(run::BenchSpec& spec);

}  // namespace refit::test
