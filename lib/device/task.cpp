// From a plan's segment to addresses.
#include "refit/device/task.hpp"

namespace refit::device {

Task task_of(const plan::Plan& plan, std::uint32_t segment_index, std::uint64_t row_begin, std::uint64_t rows,
             const std::byte* sources, std::byte* destinations) {
  const plan::Segment& segment = plan.segments[segment_index];
  const plan::Destination& to = plan.destinations[segment.destination];
  Task task;
  task.row_begin = segment.row_begin + row_begin;
  task.rows = rows;
  task.cols = segment.cols;
  task.options = plan.quant;
  if (to.row_map != plan::kNone) task.row_map = &plan.row_maps[to.row_map];
  std::byte* const matrix = destinations + to.offset + segment.matrix * to.matrix_bytes;
  if (segment.op == plan::Op::zero) {
    task.op = Op::zero;
    task.scales = matrix;
    task.scale_layout = to.scale_layout;
    task.tensor = &to.spec.name;
    return task;
  }
  const plan::Source& source = plan.sources[segment.source];
  task.row_bytes = segment.cols * size_of(source.spec.dtype);
  task.first_row = segment.source_row + row_begin;
  task.from = sources + source.offset + task.first_row * task.row_bytes;
  task.values = matrix;
  task.tensor = &source.spec.name;
  switch (segment.op) {
    case plan::Op::quantize: {
      const plan::Destination& scale = plan.destinations[to.scale];
      task.op = Op::quantize;
      task.scales = destinations + scale.offset + segment.matrix * scale.matrix_bytes;
      task.scale_layout = scale.scale_layout;
      break;
    }
    case plan::Op::round_bf16:
      task.op = Op::round_bf16;
      break;
    case plan::Op::copy:
    case plan::Op::zero:
      task.op = Op::copy;
      task.cols = task.row_bytes;
      break;
  }
  return task;
}

}  // namespace refit::device
