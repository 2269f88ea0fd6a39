// Copies to other GPUs on a stream of their own, so that the copy engines work while kernels run.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <span>

#include "cuda/session.hpp"
#include "refit/device/backend.hpp"

namespace refit::cuda {

class PeerCopies {
 public:
  explicit PeerCopies(SessionPtr session) : session_(std::move(session)) {}
  PeerCopies(const PeerCopies&) = delete;
  PeerCopies& operator=(const PeerCopies&) = delete;
  ~PeerCopies();

  /// After what the session's stream has now. Returns the number of this call, from 1.
  [[nodiscard]] std::uint64_t begin(std::span<const device::PeerCopy> copies);
  /// The session's stream goes on when the copies of that call, or of all, are done.
  void hold_up_stream(std::uint64_t number);
  void hold_up_stream() { hold_up_stream(calls_); }

 private:
  static constexpr std::size_t kEvents =
      8;  ///< calls that can be told apart; of an older one the next known is waited for
  SessionPtr session_;
  cudaStream_t stream_ = nullptr;  ///< made when it is first needed
  cudaEvent_t asked_ = nullptr;
  std::array<cudaEvent_t, kEvents> done_{};
  std::uint64_t calls_ = 0;
};

}  // namespace refit::cuda
