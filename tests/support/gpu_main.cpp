// The main of test programs that need a GPU: without one they are skipped, and say why.
#include <cstdio>

#include "support/backends.hpp"
#include "support/session.hpp"

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;  // ctest's SKIP_RETURN_CODE
  const auto support = refit::cuda::support(refit::test::tested_backend());
  if (!support.yes) {
    std::printf("skipped: %s\n", support.reason.c_str());
    return kSkipped;
  }
  return refit::test::run_session(argc, argv);
}
