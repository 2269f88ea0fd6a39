// Catch2 itself where it is a header (2.x), and its session.
#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

#include "support/session.hpp"

int refit::test::run_session(int argc, char** argv) {
  return Catch::Session().run(argc, argv);
}
