// Polling: a blocking call of MPI would not end with a deadline.
#include "mpi/waiting.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "refit/base/error.hpp"

namespace refit::mpi {
namespace {

/// After so many looks without an answer, others on the same CPU are let through.
constexpr unsigned kEagerLooks = 100;
/// Who has waited longer than this sleeps between looks, for a fiftieth of what it has waited, at most
/// kLongestNap.
constexpr std::chrono::milliseconds kSleepless{20};
constexpr std::chrono::nanoseconds kLongestNap = std::chrono::milliseconds(1);

}  // namespace

void wait_all(std::span<MPI_Request> requests, Deadline deadline, Manner manner,
              const std::function<std::string()>& waiting_for) {
  const Clock::time_point begin = Clock::now();
  for (unsigned looks = 0;; ++looks) {
    int done = 0;
    MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
    if (done != 0) return;
    if (deadline.passed()) fail_runtime(fmt::format("waited too long for {}", waiting_for()));
    if (looks <= kEagerLooks) continue;
    const std::chrono::nanoseconds waited = Clock::now() - begin;
    if (manner == Manner::patient && waited > kSleepless) {
      std::this_thread::sleep_for(std::min(waited / 50, kLongestNap));
    } else {
      ::sched_yield();
    }
  }
}

}  // namespace refit::mpi
