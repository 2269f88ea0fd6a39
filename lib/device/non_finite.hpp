// What is said of weights that are infinite or NaN.
#pragma once

#include "refit/device/task.hpp"

namespace refit::device {

/// Error(input) naming the first such element of a quantize task, whose rows are in host memory and without
/// gaps.
[[noreturn]] void refuse_non_finite(const Task& task);

}  // namespace refit::device
