// The backend that a test program runs on: the host's, or a GPU's in programs that are built for it.
#pragma once

#include "refit/device/backend.hpp"
#if REFIT_TEST_CUDA
#include "refit/cuda/backend.hpp"
#endif

namespace refit::test {

inline std::unique_ptr<device::Backend> make_backend(const device::Choice& choice) {
#if REFIT_TEST_CUDA
  if (choice.kind == device::Kind::cuda) return cuda::make_backend(choice);
#endif
  return device::make_host_backend(choice.threads);
}

/// What a test program's refits run on.
inline device::Choice tested_backend() {
#if REFIT_TEST_CUDA
  return {device::Kind::cuda, device::Transport::cuda_ipc, 2, 0};
#else
  return {device::Kind::cpu, device::Transport::shm, 2, 0};
#endif
}

}  // namespace refit::test
