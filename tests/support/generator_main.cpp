// A generator process for tests that run refits.
#include <cstdio>

#include "refit/base/error.hpp"
#include "refit/run/bench.hpp"
#include "support/backends.hpp"

int main() {
  try {
    refit::run::run_generator(3, refit::test::make_backend);
  } catch (const refit::Error& error) {
    std::fprintf(stderr, "generator: %s\n", error.what());
    return refit::exit_code(error.kind());
  }
  return 0;
}
