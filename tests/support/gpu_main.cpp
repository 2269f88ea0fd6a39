// The main of test programs that need a GPU: without one they are skipped, and say why.
#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

#include <cstdio>

#include "support/backends.hpp"

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;  // ctest's SKIP_RETURN_CODE
  const auto support = refit::cuda::support(refit::test::tested_backend());
  if (!support.yes) {
    std::printf("skipped: %s\n", support.reason.c_str());
    return kSkipped;
  }
  return Catch::Session().run(argc, argv);
}
