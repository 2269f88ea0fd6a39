// Lets a planted fault look at and change bytes, wherever they are.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "refit/device/backend.hpp"

namespace refit::run {

/// Calls body(host bytes) on a copy of the backend's memory and writes it back.
template <typename Body>
void with_host_view(device::Backend& backend, std::span<std::byte> memory, Body body) {
  std::vector<std::byte> host(memory.size());
  backend.read(host, memory.data());
  body(std::span<std::byte>(host));
  backend.write(memory.data(), host);
}

}  // namespace refit::run
