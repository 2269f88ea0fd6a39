// One non-blocking stream, polled: no wait is for ever.
#include "cuda/session.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <chrono>
#include <thread>
#include <utility>

#include "cuda/check.hpp"
#include "refit/base/error.hpp"

namespace refit::cuda {
namespace {

/// A wait ends within microseconds at first, and leaves the core to others when it turns out to be long.
constexpr std::chrono::milliseconds kSpin{2};
constexpr std::chrono::microseconds kNap{50};

}  // namespace

Session::Session(Gpu gpu, std::chrono::duration<double> patience)
    : gpu_(std::move(gpu)), patience_(patience) {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
}

Session::~Session() {
  if (stream_ != nullptr && !gave_up_) (void)cudaStreamDestroy(stream_);
}

void Session::begin(std::string_view what) {
  last_ = what;
  if (!busy_since_) busy_since_ = Clock::now();
}

void Session::wait(Deadline deadline) {
  const Clock::time_point start = Clock::now();
  for (;;) {
    const cudaError_t answer = cudaStreamQuery(stream_);
    if (answer == cudaSuccess) {
      gave_up_ = false;
      break;
    }
    if (answer != cudaErrorNotReady) check(answer, last_);
    (void)cudaGetLastError();  // "not ready" would look like the next launch's fault
    if (deadline.passed()) {
      gave_up_ = true;
      const std::chrono::duration<double> busy = Clock::now() - busy_since_.value_or(start);
      fail_runtime(fmt::format(
          "{} did not finish in time: {}{} still goes on, {:.1f} s after the GPU was idle", gpu_.name(),
          last_, stage_.empty() ? "" : fmt::format(" in stage '{}'", stage_), busy.count()));
    }
    if (Clock::now() - start < kSpin) {
      ::sched_yield();
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }
  busy_since_.reset();
}

void Session::wait() {
  wait(Deadline::after(patience_));
}

void Session::read(std::span<std::byte> host, const void* device) {
  wait();  // a copy to ordinary host memory would wait, too, but without a limit
  if (host.empty()) return;
  begin("reading from the GPU");
  check(cudaMemcpyAsync(host.data(), device, host.size(), cudaMemcpyDeviceToHost, stream_),
        "reading from the GPU");
  wait();
}

void Session::drain() noexcept {
  const Deadline deadline = Deadline::after(patience_);
  while (!gave_up_ && cudaStreamQuery(stream_) == cudaErrorNotReady && !deadline.passed()) {
    std::this_thread::sleep_for(kNap);
  }
  (void)cudaGetLastError();
}

}  // namespace refit::cuda
