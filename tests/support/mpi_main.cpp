// The suite of ranks on what mpirun started.
#include <cstdio>
#include <exception>

#include "refit/mpi/session.hpp"
#include "support/rank_suite.hpp"

int main() {
  refit::mpi::Session session(
      [](const std::string& sentence) {
        std::fprintf(stderr, "%s\n", sentence.c_str());
        std::_Exit(3);
      },
      refit::Deadline::after(std::chrono::seconds(60)));
  try {
    const auto group = session.group();
    const auto exchange = session.exchange();
    refit::test::check_ranks(*group, *exchange);
    if (group->rank() == 0) std::printf("%u ranks: passed\n", group->size());
    if (group->size() < 2) throw std::runtime_error("one rank alone proves nothing");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    session.abort(1);
  }
  return 0;
}
