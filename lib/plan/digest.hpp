// The digest that both sides of a refit compare before the first byte.
#pragma once

#include <cstdint>

#include "refit/plan/plan.hpp"
#include "refit/plan/wire.hpp"

namespace refit::plan {

/// Of every field of the plan but `digest` itself.
[[nodiscard]] std::uint64_t digest_of(const Plan& plan);

/// Of entries, offsets and buckets.
[[nodiscard]] std::uint64_t digest_of(const Wire& wire);

}  // namespace refit::plan
