// One stream, and an event for each of the last calls.
#include "cuda/peer_copies.hpp"

#include <algorithm>

#include "cuda/check.hpp"

namespace refit::cuda {

PeerCopies::~PeerCopies() {
  if (stream_ == nullptr || session_->gave_up()) return;
  (void)cudaStreamDestroy(stream_);
  (void)cudaEventDestroy(asked_);
  for (cudaEvent_t event : done_) (void)cudaEventDestroy(event);
}

std::uint64_t PeerCopies::begin(std::span<const device::PeerCopy> copies) {
  if (stream_ == nullptr) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream for peer copies");
    check(cudaEventCreateWithFlags(&asked_, cudaEventDisableTiming), "creating an event");
    for (cudaEvent_t& event : done_) {
      check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event");
    }
  }
  session_->begin("copying to another GPU");
  check(cudaEventRecord(asked_, session_->stream()), "marking what a peer copy follows");
  check(cudaStreamWaitEvent(stream_, asked_, 0), "ordering a peer copy");
  for (const device::PeerCopy& copy : copies) {
    check(cudaMemcpyAsync(copy.to, copy.from, copy.bytes, cudaMemcpyDefault, stream_),
          "copying to another GPU");
  }
  check(cudaEventRecord(done_[++calls_ % kEvents], stream_), "marking the end of a peer copy");
  return calls_;
}

void PeerCopies::hold_up_stream(std::uint64_t number) {
  if (number == 0) return;
  // An event that a later call took over comes no earlier.
  const std::uint64_t known = std::max(number, calls_ < kEvents ? 1 : calls_ - kEvents + 1);
  check(cudaStreamWaitEvent(session_->stream(), done_[known % kEvents], 0), "waiting for a peer copy");
}

}  // namespace refit::cuda
