// One branch a backend.
#include "common/backends.hpp"

#include <fmt/format.h>

#include "refit/base/error.hpp"
#if REFIT_HAS_CUDA
#include "refit/cuda/backend.hpp"
#endif

namespace refit::apps {
namespace {

/// What stays free on a GPU beside the replay.
constexpr std::uint64_t kSparedBytes = 512u << 20;

device::Transport transport_of(const BackendOptions& options, const std::string& name, device::Kind kind) {
  if (name == "auto") {
    return kind == device::Kind::cpu ? device::Transport::shm : device::Transport::cuda_ipc;
  }
  const auto transport = device::parse_transport(name);
  if (!transport) {
    fail_input(fmt::format("--transport: {} is not one of auto, shm, cuda-ipc, cuda-vmm", name));
  }
  if ((*transport == device::Transport::shm) != (kind == device::Kind::cpu)) {
    fail_input(fmt::format("--transport {} does not go with --backend {}", name, options.kind));
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

void add_backend_options(CLI::App& app, BackendOptions& options, const std::string& description) {
  app.add_option("--backend", options.kind, description)->capture_default_str()->type_name("cpu|cuda");
  app.add_option("--device", options.ordinal, "Which GPU, as CUDA counts them")
      ->check(CLI::Range(0, 1023).description(""))
      ->capture_default_str()
      ->type_name("N");
}

device::Choice backend_choice(const BackendOptions& options, const std::string& transport) {
  const auto kind = device::parse_kind(options.kind);
  if (!kind) fail_input(fmt::format("--backend: {} is not one of cpu, cuda", options.kind));
  device::Choice choice;
  choice.kind = *kind;
  choice.transport = transport_of(options, transport, *kind);
  choice.ordinal = options.ordinal;
  if (*kind == device::Kind::cpu && options.ordinal != 0) {
    fail_input("--device chooses a GPU and needs --backend cuda");
  }
  return choice;
}

std::uint64_t usable_memory(const device::Choice& choice) {
  const std::uint64_t free = make_backend(choice)->available_memory();
  return free > kSparedBytes ? free - kSparedBytes : 1;
}

}  // namespace refit::apps
