// Catch2's command line, compiled once for all test programs.
#pragma once

namespace refit::test {

/// Runs the test cases that the arguments select; the program's exit status.
int run_session(int argc, char** argv);

}  // namespace refit::test
