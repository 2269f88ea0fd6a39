// The limit of the host: plain copies with the threads of the run.
#pragma once

#include <cstddef>
#include <span>

#include "refit/base/thread_pool.hpp"
#include "refit/device/backend.hpp"

namespace refit::device {

/// Copies `from` to `to` several times (the smaller length; when that is under 512 MiB, arrays of 512 MiB of
/// its own). `to` loses its contents.
[[nodiscard]] CopySamples measure_host_copy(std::span<const std::byte> from, std::span<std::byte> to,
                                            ThreadPool& pool);

}  // namespace refit::device
