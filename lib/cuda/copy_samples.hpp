// The limit that every stage is measured against: plain copies on this GPU, in this run.
#pragma once

#include <cstddef>
#include <span>

#include "cuda/session.hpp"
#include "refit/device/backend.hpp"

namespace refit::cuda {

/// Copies within the GPU's memory, and between it and pinned host memory. `to` loses its contents. Waits.
[[nodiscard]] device::CopySamples measure_copy(const SessionPtr& session, std::span<const std::byte> from,
                                               std::span<std::byte> to);

}  // namespace refit::cuda
