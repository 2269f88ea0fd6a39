// Host memory behind the Memory interface: memfds, windows of them, and plain pages.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "refit/device/backend.hpp"
#include "refit/transport/shared_memory.hpp"

namespace refit::device {

[[nodiscard]] std::unique_ptr<Memory> allocate_host(std::uint64_t bytes, const std::string& what);
[[nodiscard]] std::unique_ptr<Memory> scratch_host(std::uint64_t bytes);
/// Counts itself, and every window of it, in `counts`, which has to outlive it.
[[nodiscard]] std::unique_ptr<Memory> open_host(transport::UniqueFd fd, std::uint64_t bytes,
                                                const std::string& what, HandleCounts& counts);

}  // namespace refit::device
