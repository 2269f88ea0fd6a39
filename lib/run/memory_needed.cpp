// An upper bound of what both processes allocate, from the plan alone.
#include <algorithm>

#include "refit/base/bytes.hpp"
#include "refit/plan/wire.hpp"
#include "refit/run/bench.hpp"
#include "run/batching.hpp"

namespace refit::run {
namespace {

/// Of two processes on the host: code, stacks, plans, messages and evidence.
constexpr std::uint64_t kHostProcessBytes = 192u << 20;
/// Of two processes on a GPU: contexts (about 0.5 GiB each on an H200), descriptors, windows for host copies.
constexpr std::uint64_t kGpuProcessBytes = (2048ull + 512) << 20;

std::uint64_t staging_bytes(const plan::Plan& plan, const plan::Switches& switches,
                            const device::Choice& backend) {
  if (switches.pipeline == plan::Pipeline::direct) return 0;
  const plan::Wire wire = plan::make_wire(plan, switches.prequantize, switches.bucket_bytes());
  const std::uint64_t slot = std::min(switches.bucket_bytes(), align_up(wire.largest_bucket, 4096));
  std::uint64_t canonical = 0, matrix = 0, tensor = 0;
  for (const plan::Destination& to : plan.destinations) {
    if (to.scale_layout == plan::ScaleLayout::tiled_128x4) canonical += to.spec.bytes();
    if (to.row_map != plan::kNone) matrix = std::max(matrix, to.matrix_bytes);
  }
  if (switches.shuffle == plan::Shuffle::fused) canonical = 0;
  for (const plan::WireEntry& entry : wire.entries) {
    if (plan.segments[entry.segment].op == plan::Op::quantize) tensor = std::max(tensor, entry.bytes);
  }
  const unsigned matrices = backend.kind == device::Kind::cpu ? backend.threads : 1;
  return slot * (switches.double_buffer ? 2 : 1) + canonical + matrix * matrices +
         (switches.prequantize ? tensor * 2 : 0);
}

}  // namespace

std::uint64_t memory_needed(const plan::Plan& plan, const plan::Switches& control,
                            const plan::Switches& treatment, const device::Choice& backend) {
  const bool shadow = control.commit == plan::Commit::shadow || treatment.commit == plan::Commit::shadow;
  const std::uint64_t processes =
      backend.kind == device::Kind::cpu ? kHostProcessBytes + device::kMoveWindowBytes : kGpuProcessBytes;
  return plan.source_arena_bytes + plan.destination_arena_bytes * (shadow ? 2 : 1) +
         staging_bytes(plan, control, backend) + staging_bytes(plan, treatment, backend) + processes;
}

}  // namespace refit::run
