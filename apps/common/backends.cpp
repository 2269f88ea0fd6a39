// One branch a backend.
#include "common/backends.hpp"

#include <fmt/format.h>

#include <limits>

#include "refit/base/error.hpp"
#if REFIT_HAS_CUDA
#include "refit/cuda/backend.hpp"
#endif

namespace refit::apps {
namespace {

/// What stays free on a GPU beside the replay, for other users of it.
constexpr std::uint64_t kSparedBytes = 512u << 20;

device::Transport transport_of(const RefitOptions& options, device::Kind kind) {
  if (options.transport == "auto") {
    return kind == device::Kind::cpu ? device::Transport::shm : device::Transport::cuda_ipc;
  }
  const auto transport = device::parse_transport(options.transport);
  if (!transport) {
    fail_input(fmt::format("--transport: {} is not one of auto, shm, cuda-ipc, cuda-vmm", options.transport));
  }
  if ((*transport == device::Transport::shm) != (kind == device::Kind::cpu)) {
    fail_input(
        fmt::format("--transport {} does not go with --backend {}", options.transport, options.backend));
  }
  return *transport;
}

}  // namespace

std::unique_ptr<device::Backend> make_backend(const device::Choice& choice) {
  if (choice.kind == device::Kind::cpu) return device::make_host_backend(choice.threads);
#if REFIT_HAS_CUDA
  return cuda::make_backend(choice);
#else
  fail_input(
      "this build has no GPU backend; install the CUDA Toolkit, configure with -DREFIT_CUDA=ON and build "
      "again, or use --backend cpu");
#endif
}

void choose_backend(RefitOptions& options, bool dry_run) {
  const auto kind = device::parse_kind(options.backend);
  if (!kind) fail_input(fmt::format("--backend: {} is not one of cpu, cuda", options.backend));
  device::Choice& choice = options.replay.backend;
  choice.kind = *kind;
  choice.transport = transport_of(options, *kind);
  choice.ordinal = options.device;
  choice.timeout_s = options.timeout_s;
  if (*kind == device::Kind::cpu) {
    if (options.device != 0) fail_input("--device chooses a GPU and needs --backend cuda");
    return;
  }
  std::uint64_t& budget = options.replay.memory_budget;
  try {
    const std::uint64_t free = make_backend(choice)->available_memory();
    if (budget == 0) budget = free > kSparedBytes ? free - kSparedBytes : 1;
  } catch (const Error&) {
    if (!dry_run) throw;
    if (budget == 0) budget = std::numeric_limits<std::uint64_t>::max();
  }
}

}  // namespace refit::apps
