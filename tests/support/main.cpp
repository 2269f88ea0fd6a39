// The test programs' main.
#include "support/session.hpp"

int main(int argc, char** argv) {
  return refit::test::run_session(argc, argv);
}
