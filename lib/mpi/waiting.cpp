// Polling: a blocking call of MPI would not end with a deadline.
#include "mpi/waiting.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include "refit/base/error.hpp"

namespace refit::mpi {
namespace {

/// After so many looks without an answer, others on the same CPU are let through.
constexpr unsigned kEagerLooks = 100;

}  // namespace

void wait_all(std::span<MPI_Request> requests, Deadline deadline,
              const std::function<std::string()>& waiting_for) {
  for (unsigned looks = 0;; ++looks) {
    int done = 0;
    MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
    if (done != 0) return;
    if (deadline.passed()) fail_runtime(fmt::format("waited too long for {}", waiting_for()));
    if (looks > kEagerLooks) ::sched_yield();
  }
}

}  // namespace refit::mpi
