// Are two checkpoints the same: names, dtypes, shapes and every byte.
#pragma once

#include <string>
#include <vector>

#include "refit/audit/report.hpp"
#include "refit/base/thread_pool.hpp"
#include "refit/checkpoint/checkpoint.hpp"

namespace refit::audit {

/// `a` is what is expected. With `names` only these tensors are compared; Error(input) for one that neither
/// has. Bit for bit: -0 is not +0, and NaN payloads count. How a checkpoint is cut into shards does not.
[[nodiscard]] Report compare_files(const checkpoint::Checkpoint& a, const checkpoint::Checkpoint& b,
                                   const std::vector<std::string>& names, ThreadPool& pool);

}  // namespace refit::audit
