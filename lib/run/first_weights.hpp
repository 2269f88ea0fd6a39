// The weights that the first refit moves.
#pragma once

#include <cstddef>
#include <span>

#include "refit/device/backend.hpp"
#include "refit/run/bench.hpp"

namespace refit::run {

/// Seeded values, or those of spec.checkpoint: then Error(input) naming file and tensor when one is missing
/// there, or has another dtype or shape (embeddings and head may have more rows: a replay can keep the first
/// ones alone).
void make_first_weights(const BenchSpec& spec, const plan::Plan& plan, device::Backend& backend,
                        std::span<std::byte> sources);

}  // namespace refit::run
