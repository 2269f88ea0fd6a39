// As upstream does it, one expert or one layer at a time.
#include "run/relayout.hpp"

#include <algorithm>
#include <string>

#include "refit/layout/scale_128x4.hpp"
#include "refit/quant/mxfp8.hpp"
#include "run/host_view.hpp"
#include "run/moved_bytes.hpp"

namespace refit::run {
namespace {

const std::string kShuffled = "a shuffled expert";

std::uint64_t scale_cols(const plan::Plan& plan, const plan::Destination& scale) {
  return plan.destinations[scale.scale_of].spec.cols() / quant::kBlock;
}

}  // namespace

Relayout::Relayout(const plan::Plan& plan, const plan::Switches& switches, device::Backend& backend,
                   MemoryLedger& ledger, Hooks& hooks)
    : plan_(plan),
      switches_(switches),
      backend_(backend),
      ledger_(ledger),
      hooks_(hooks),
      canonical_offset_(plan.destinations.size()),
      scratch_(backend, ledger) {
  if (switches.shuffle == plan::Shuffle::fused) return;
  std::uint64_t bytes = 0;
  for (std::size_t d = 0; d < plan.destinations.size(); ++d) {
    const plan::Destination& scale = plan.destinations[d];
    if (scale.scale_layout != plan::ScaleLayout::tiled_128x4) continue;
    canonical_offset_[d] = bytes;
    bytes += scale.matrices * scale.matrix_rows * scale_cols(plan, scale);
  }
  canonical_scales_ = backend.scratch(bytes, "the scales in canonical order (shuffle=fused needs none)");
  ledger_.add(bytes);
  if (switches.shuffle != plan::Shuffle::per_expert) return;
  std::uint64_t largest = 0;
  for (const plan::Destination& weight : plan.destinations) {
    if (weight.row_map != plan::kNone && weight.scale_of == plan::kNone)
      largest = std::max(largest, weight.matrix_bytes);
  }
  // Now, so that what a refit may hold is known before it begins.
  (void)scratch_.reserve(largest, kShuffled);
}

Relayout::~Relayout() {
  if (canonical_scales_ != nullptr) ledger_.remove(canonical_scales_->bytes().size());
}

void Relayout::poison(std::byte value) {
  if (canonical_scales_ != nullptr) backend_.fill(canonical_scales_->bytes(), value);
}

std::byte* Relayout::canonical_scales(std::uint32_t scale_destination, std::uint64_t matrix) const {
  const plan::Destination& scale = plan_.destinations[scale_destination];
  if (canonical_scales_ == nullptr || scale.scale_layout != plan::ScaleLayout::tiled_128x4) return nullptr;
  return canonical_scales_->bytes().data() + canonical_offset_[scale_destination] +
         matrix * scale.matrix_rows * scale_cols(plan_, scale);
}

void Relayout::run(std::span<std::byte> destinations, Stages& stages,
                   std::vector<verify::Executed>* executed) {
  destinations_ = destinations;
  executed_ = executed;
  if (switches_.shuffle == plan::Shuffle::fused) {
    zero_padding(stages);
  } else {
    shuffle(stages);
    swizzle(stages);
  }
}

void Relayout::zero_padding(Stages& stages) {
  stages.enter("swizzle");
  std::vector<device::Task> zeros;
  for (std::uint32_t s = 0; s < plan_.segments.size(); ++s) {
    const plan::Segment& segment = plan_.segments[s];
    if (segment.op != plan::Op::zero) continue;
    zeros.push_back(device::task_of(plan_, s, 0, segment.rows, nullptr, destinations_.data()));
    if (executed_ != nullptr) executed_->push_back({s, 0, segment.rows});
  }
  if (zeros.empty()) return;
  backend_.run(zeros);
  stages.add(moved_by(zeros), 1);
}

void Relayout::shuffle(Stages& stages) {
  stages.enter("shuffle");
  for (const plan::Destination& weight : plan_.destinations) {
    if (weight.row_map == plan::kNone || weight.scale_of != plan::kNone) continue;
    const device::Shuffle what{destinations_.data() + weight.offset, weight.matrices, weight.matrix_rows,
                               weight.matrix_bytes / weight.matrix_rows, &plan_.row_maps[weight.row_map]};
    const unsigned times = hooks_.shuffles(plan_, weight);
    for (unsigned i = 0; i < times; ++i) {
      if (switches_.shuffle == plan::Shuffle::per_expert) {
        shuffle_each_expert(what, stages);
        continue;
      }
      backend_.shuffle_in_place(what);
      stages.add(2 * weight.matrices * weight.matrix_bytes, 1);
    }
  }
}

void Relayout::shuffle_each_expert(const device::Shuffle& what, Stages& stages) {
  // Upstream makes a new tensor for every expert and copies it back.
  const std::uint64_t matrix_bytes = what.rows * what.row_bytes;
  device::Task task;
  task.values = scratch_.reserve(matrix_bytes, kShuffled);
  task.rows = what.rows;
  task.cols = task.row_bytes = what.row_bytes;
  task.row_map = what.row_map;
  for (std::uint64_t m = 0; m < what.matrices; ++m) {
    task.from = what.data + m * matrix_bytes;
    backend_.run({&task, 1});
    backend_.copy(what.data + m * matrix_bytes, task.values, matrix_bytes);
    stages.add(4 * matrix_bytes, 2);
  }
}

void Relayout::swizzle(Stages& stages) {
  stages.enter("swizzle");
  for (std::uint32_t d = 0; d < plan_.destinations.size(); ++d) {
    if (plan_.destinations[d].scale_layout == plan::ScaleLayout::tiled_128x4) swizzle_destination(d, stages);
  }
}

void Relayout::swizzle_destination(std::uint32_t index, Stages& stages) {
  const plan::Destination& scale = plan_.destinations[index];
  const plan::Destination& weight = plan_.destinations[scale.scale_of];
  const std::uint64_t cols = scale_cols(plan_, scale);
  const std::uint64_t canonical_bytes = scale.matrix_rows * cols;
  std::byte* const canonical = canonical_scales(index, 0);
  if (hooks_.planted()) {
    with_host_view(backend_, {canonical, scale.matrices * canonical_bytes},
                   [&](std::span<std::byte> host) { hooks_.before_swizzle(plan_, scale, host); });
  }
  const std::uint64_t padding_rows = layout::padded_scale_rows(scale.matrix_rows) - scale.matrix_rows;
  std::vector<device::Task> tasks;
  for (std::uint64_t m = 0; m < scale.matrices; ++m) {
    device::Task task;
    task.op = device::Op::scales;
    task.from = canonical + m * canonical_bytes;
    task.scales = destinations_.data() + scale.offset + m * scale.matrix_bytes;
    task.rows = scale.matrix_rows;
    task.cols = task.row_bytes = cols;
    task.scale_layout = scale.scale_layout;
    if (weight.row_map != plan::kNone) task.row_map = &plan_.row_maps[weight.row_map];
    tasks.push_back(task);
    if (padding_rows == 0) continue;
    device::Task zero = task;
    zero.op = device::Op::zero;
    zero.from = nullptr;
    zero.row_map = nullptr;
    zero.row_begin = scale.matrix_rows;
    zero.rows = padding_rows;
    tasks.push_back(zero);
  }
  const std::uint64_t moved = canonical_bytes + scale.matrix_bytes;
  if (switches_.shuffle == plan::Shuffle::batched) {
    backend_.run(tasks);
    stages.add(scale.matrices * moved, 1);
    return;
  }
  for (const device::Task& task : tasks) backend_.run({&task, 1});
  stages.add(scale.matrices * moved, tasks.size());
}

}  // namespace refit::run
