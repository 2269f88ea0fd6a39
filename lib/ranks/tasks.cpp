// Boxes meet rows of segments.
#include "ranks/tasks.hpp"

#include <algorithm>

#include "refit/quant/mxfp8.hpp"

namespace refit::ranks {

using reshard::Box;
using reshard::Placed;

bool cuts_blocks(const Box& box) noexcept {
  return box.col % quant::kBlock != 0 || box.cols % quant::kBlock != 0;
}

std::vector<Piece> pieces_of(const TrainerShare& share, std::uint32_t tensor, const Box& box,
                             const std::byte* arena) {
  std::vector<Piece> pieces;
  for (const Placed& placed : share.placed.of(tensor)) {
    const Box part = reshard::intersection(placed.box, box);
    if (part.empty()) continue;
    const TensorSpec& own = share.local.tensors[placed.local];
    const std::uint64_t size = size_of(own.dtype), pitch = own.cols() * size;
    const std::uint64_t row = placed.local_row + part.row - placed.box.row;
    const std::uint64_t col = placed.local_col + part.col - placed.box.col;
    pieces.push_back({part, {arena + share.extents[placed.local].offset + row * pitch + col * size, pitch}});
  }
  return pieces;
}

device::Task pack_piece(const TensorSpec& tensor, const reshard::Transfer& transfer, const Piece& piece,
                        std::byte* values, std::byte* scales, const quant::Options& options) {
  const std::uint64_t size = size_of(tensor.dtype), col = piece.box.col - transfer.box.col;
  device::Task task;
  task.from = piece.at.values;
  task.row_bytes = piece.at.pitch;
  task.values = values;
  task.row_begin = piece.box.row - transfer.box.row;
  task.rows = piece.box.rows;
  task.tensor = &tensor.name;
  task.first_row = piece.box.row;
  if (transfer.form == reshard::Form::quantized) {
    task.op = device::Op::quantize;
    task.options = options;
    task.scales = scales;
    task.scale_layout = plan::ScaleLayout::row_major;
    task.cols = piece.box.cols;
    task.to_col = col;
    task.to_cols = transfer.box.cols;
  } else {
    task.cols = piece.box.cols * size;
    task.to_col = col * size;
    task.to_cols = transfer.box.cols * size;
  }
  return task;
}

void pack(const TrainerShare& share, const reshard::Transfer& transfer, const std::byte* arena,
          std::byte* values, std::byte* scales, const quant::Options& options,
          std::vector<device::Task>& tasks) {
  const TensorSpec& spec = share.model.tensors[transfer.tensor].spec;
  for (const Piece& piece : pieces_of(share, transfer.tensor, transfer.box, arena)) {
    tasks.push_back(pack_piece(spec, transfer, piece, values, scales, options));
  }
}

void Meeting::expect(const GeneratorShare& share, const reshard::Transfer& transfer) {
  if (transfer.form != reshard::Form::quantized_late || !cuts_blocks(transfer.box)) return;
  for (const Placed& placed : share.placed.of(transfer.tensor)) {
    const Box part = reshard::intersection(placed.box, transfer.box);
    if (part.empty()) continue;
    const auto [found, is_new] = rows_.try_emplace(&placed, Rows{&placed, part.row, part.row + part.rows, 0});
    found->second.begin = std::min(found->second.begin, part.row);
    found->second.end = std::max(found->second.end, part.row + part.rows);
  }
}

void Meeting::lay_out() {
  bytes_ = 0;
  for (auto& [placed, rows] : rows_) {
    rows.offset = bytes_;
    bytes_ += (rows.end - rows.begin) * placed->box.cols * sizeof(std::uint16_t);
  }
}

const Meeting::Rows* Meeting::find(const Placed& placed) const {
  const auto found = rows_.find(&placed);
  return found == rows_.end() ? nullptr : &found->second;
}

MatrixAddress in_arena(const plan::Plan& plan, std::byte* arena) {
  return [&plan, arena](std::uint32_t destination, std::uint64_t matrix) {
    const plan::Destination& to = plan.destinations[destination];
    return arena + to.offset + matrix * to.matrix_bytes;
  };
}

namespace {

/// Rows [begin, end) of the segment's source that a part of a box feeds; none where they do not meet.
Fed rows_of(const plan::Segment& segment, const Placed& placed, const Box& part) {
  const std::uint64_t local_row = placed.local_row + part.row - placed.box.row;
  return {&segment, &placed, part, std::max(local_row, segment.source_row),
          std::min(local_row + part.rows, segment.source_row + segment.rows)};
}

}  // namespace

std::vector<Fed> fed_by(const GeneratorShare& share, std::uint32_t tensor, const Box& box) {
  std::vector<Fed> all;
  for (const Placed& placed : share.placed.of(tensor)) {
    const Box part = reshard::intersection(placed.box, box);
    if (part.empty()) continue;
    for (const std::uint32_t segment : share.segments[placed.local]) {
      const Fed fed = rows_of(share.plan.segments[segment], placed, part);
      if (fed.begin < fed.end) all.push_back(fed);
    }
  }
  return all;
}

void Placer::place(std::uint32_t tensor, const Box& box, const Lying& at, const Meeting& meeting,
                   std::byte* scratch, std::vector<device::Task>& tasks) const {
  const std::uint64_t size = size_of(share_.model.tensors[tensor].spec.dtype);
  for (const Placed& placed : share_.placed.of(tensor)) {
    const Box part = reshard::intersection(placed.box, box);
    if (part.empty()) continue;
    Lying lying = at;
    const std::uint64_t row = part.row - box.row, col = part.col - box.col;
    if (at.scales != nullptr) {
      lying.values += row * at.pitch + col;
      lying.scales += row * at.scale_pitch + col / quant::kBlock;
    } else {
      lying.values += row * at.pitch + col * size;
    }
    const Meeting::Rows* const met = meeting.find(placed);
    if (met != nullptr && at.scales == nullptr) {
      device::Task task;
      task.from = lying.values;
      task.row_bytes = at.pitch;
      task.values = scratch + met->offset;
      task.row_begin = part.row - met->begin;
      task.rows = part.rows;
      task.cols = part.cols * size;
      task.to_col = (part.col - placed.box.col) * size;
      task.to_cols = placed.box.cols * size;
      tasks.push_back(task);
      continue;
    }
    for (const std::uint32_t segment : share_.segments[placed.local]) {
      place_rows(share_.plan.segments[segment], placed, part, lying, tasks);
    }
  }
}

void Placer::place_met(const Meeting& meeting, const std::byte* scratch,
                       std::vector<device::Task>& tasks) const {
  for (const auto& [placed, rows] : meeting.all()) {
    const Box box{rows.begin, rows.end - rows.begin, placed->box.col, placed->box.cols};
    const Lying at{.values = scratch + rows.offset, .pitch = box.cols * sizeof(std::uint16_t)};
    for (const std::uint32_t segment : share_.segments[placed->local]) {
      place_rows(share_.plan.segments[segment], *placed, box, at, tasks);
    }
  }
}

void Placer::place_rows(const plan::Segment& segment, const Placed& placed, const Box& box, const Lying& at,
                        std::vector<device::Task>& tasks) const {
  const Fed fed = rows_of(segment, placed, box);
  const std::uint64_t begin = fed.begin, end = fed.end;
  if (begin >= end) return;
  std::byte* const values = address_(segment.destination, segment.matrix);
  if (values == nullptr) return;
  const std::uint64_t local_row = placed.local_row + box.row - placed.box.row;
  const std::uint64_t local_col = placed.local_col + box.col - placed.box.col;
  const plan::Plan& plan = share_.plan;
  const plan::Source& source = plan.sources[segment.source];
  const plan::Destination& to = plan.destinations[segment.destination];
  const std::uint64_t size = size_of(source.spec.dtype);
  device::Task task;
  task.from = at.values + (begin - local_row) * at.pitch;
  task.row_bytes = at.pitch;
  task.values = values;
  task.row_begin = segment.row_begin + begin - segment.source_row;
  task.rows = end - begin;
  task.cols = box.cols;
  task.to_col = local_col;
  task.to_cols = segment.cols;
  const bool fused = relayout_ == nullptr || relayout_->is_fused();
  if (fused && to.row_map != plan::kNone) task.row_map = &plan.row_maps[to.row_map];
  task.tensor = &source.spec.name;
  task.first_row = begin;
  if (segment.op != plan::Op::quantize) {
    if (segment.op == plan::Op::round_bf16) {
      task.op = device::Op::round_bf16;
    } else {
      for (std::uint64_t* bytes : {&task.cols, &task.to_col, &task.to_cols}) *bytes *= size;
    }
    tasks.push_back(task);
    return;
  }
  const plan::Destination& scale = plan.destinations[to.scale];
  std::byte* const canonical =
      relayout_ == nullptr ? nullptr : relayout_->canonical_scales(to.scale, segment.matrix);
  std::byte* const scales = canonical != nullptr ? canonical : address_(to.scale, segment.matrix);
  const plan::ScaleLayout layout = canonical != nullptr ? plan::ScaleLayout::row_major : scale.scale_layout;
  if (at.scales == nullptr) {
    task.op = device::Op::quantize;
    task.options = plan.quant;
    task.scales = scales;
    task.scale_layout = layout;
    tasks.push_back(task);
    return;
  }
  tasks.push_back(task);  // values are bytes, so they count as they are
  task.op = device::Op::scales;
  task.values = nullptr;
  task.scales = scales;
  task.scale_layout = layout;
  task.from = at.scales + (begin - local_row) * at.scale_pitch;
  task.row_bytes = at.scale_pitch;
  for (std::uint64_t* columns : {&task.cols, &task.to_col, &task.to_cols}) *columns /= quant::kBlock;
  tasks.push_back(task);
}

}  // namespace refit::ranks
