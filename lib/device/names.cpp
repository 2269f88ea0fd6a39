// Names of backends and transports on command lines and in JSON.
#include <array>

#include "refit/device/backend.hpp"

namespace refit::device {
namespace {

constexpr std::array kKinds = {Kind::cpu, Kind::cuda};
constexpr std::array kTransports = {Transport::shm, Transport::cuda_ipc, Transport::cuda_vmm};

template <typename Values>
auto parse(const Values& values, std::string_view name) -> std::optional<typename Values::value_type> {
  for (const auto value : values) {
    if (name_of(value) == name) return value;
  }
  return std::nullopt;
}

}  // namespace

std::string_view name_of(Kind kind) noexcept {
  return kind == Kind::cpu ? "cpu" : "cuda";
}

std::optional<Kind> parse_kind(std::string_view name) noexcept {
  return parse(kKinds, name);
}

std::string_view name_of(Transport transport) noexcept {
  switch (transport) {
    case Transport::shm:
      return "shm";
    case Transport::cuda_ipc:
      return "cuda-ipc";
    case Transport::cuda_vmm:
      return "cuda-vmm";
  }
  return "?";
}

std::optional<Transport> parse_transport(std::string_view name) noexcept {
  return parse(kTransports, name);
}

}  // namespace refit::device
