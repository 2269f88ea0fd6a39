// What tasks have to move: each byte read once and each byte written once.
#pragma once

#include <cstdint>
#include <span>

#include "refit/device/task.hpp"
#include "refit/quant/mxfp8.hpp"

namespace refit::run {

[[nodiscard]] inline std::uint64_t moved_by(const device::Task& task) noexcept {
  switch (task.op) {
    case device::Op::quantize:
      return task.rows * (task.cols * 3 + task.cols / quant::kBlock);
    case device::Op::zero:
      return task.rows * task.cols;
    case device::Op::round_bf16:
      return task.rows * task.cols * sizeof(float) * 2;
    default:
      return task.rows * task.cols * 2;
  }
}

[[nodiscard]] inline std::uint64_t moved_by(std::span<const device::Task> tasks) noexcept {
  std::uint64_t bytes = 0;
  for (const device::Task& task : tasks) bytes += moved_by(task);
  return bytes;
}

}  // namespace refit::run
