// Where available_memory() looks, for tests that bring their own trees.
#pragma once

#include <cstdint>
#include <filesystem>

namespace refit::transport {

/// `proc` is /proc of this machine and `cgroup` its /sys/fs/cgroup.
[[nodiscard]] std::uint64_t available_memory(const std::filesystem::path& proc,
                                             const std::filesystem::path& cgroup);

}  // namespace refit::transport
