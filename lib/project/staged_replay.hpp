// Replays a trainer and the generator beside it on one GPU.
#pragma once

#include "project/replayed.hpp"
#include "project/staged_load.hpp"
#include "refit/project/platform.hpp"
#include "refit/project/stack.hpp"

namespace refit::project {

[[nodiscard]] Replayed replay(const StagedLoad& load, const Platform& platform, const Stack& stack);

}  // namespace refit::project
