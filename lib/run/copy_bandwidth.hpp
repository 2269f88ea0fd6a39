// The limit that every stage is measured against: plain copies on this machine, in this run.
#pragma once

#include <span>

#include "refit/base/thread_pool.hpp"
#include "refit/run/result.hpp"

namespace refit::run {

/// Copies `from` to `to` several times (the smaller length; when that is under 512 MiB, arrays of 512 MiB of
/// its own) and adds the repetitions to `copy`. `to` loses its contents.
void measure_copy(std::span<const std::byte> from, std::span<std::byte> to, ThreadPool& pool,
                  CopyBandwidth& copy);

}  // namespace refit::run
