// One sentence for every backend.
#include "device/non_finite.hpp"

#include <fmt/format.h>

#include "refit/base/error.hpp"
#include "refit/quant/mxfp8.hpp"

namespace refit::device {

void refuse_non_finite(const Task& task) {
  const auto* bits = reinterpret_cast<const std::uint16_t*>(task.from);
  const std::size_t at = quant::find_non_finite({bits, task.rows * task.cols}).value_or(0);
  fail_input(fmt::format(
      "tensor '{}' holds {} at [{}, {}]; weights have to be finite (non_finite=as-producer takes them "
      "as the chosen producer does)",
      *task.tensor, quant::bf16_value(bits[at]), task.first_row + at / task.cols, at % task.cols));
}

}  // namespace refit::device
