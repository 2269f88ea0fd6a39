// Rows land in canonical order in the parameters themselves; the shuffle then moves them in place, as
// upstream does.
#include "run/receiver.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "refit/base/digest.hpp"
#include "refit/base/error.hpp"
#include "refit/layout/moe_shuffle.hpp"
#include "refit/layout/scale_128x4.hpp"
#include "run/batching.hpp"
#include "run/segments.hpp"

namespace refit::run {
namespace {

std::span<const std::uint8_t> as_u8(const std::byte* data, std::uint64_t bytes) {
  return {reinterpret_cast<const std::uint8_t*>(data), bytes};
}
std::span<std::uint8_t> as_u8(std::byte* data, std::uint64_t bytes) {
  return {reinterpret_cast<std::uint8_t*>(data), bytes};
}

std::uint64_t scale_cols(const plan::Plan& plan, const plan::Destination& scale) {
  return plan.destinations[scale.scale_of].spec.cols() / quant::kBlock;
}

}  // namespace

MappedWindow::MappedWindow(int fd, std::uint64_t offset, std::uint64_t bytes) {
  static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t begin = offset / page * page;
  mapped_ = std::max<std::size_t>(1, offset - begin + bytes);
  base_ = ::mmap(nullptr, mapped_, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(begin));
  if (base_ == MAP_FAILED) {
    base_ = nullptr;
    fail_runtime(
        fmt::format("opening a tensor's handle failed: mmap of {} bytes: {}", mapped_, std::strerror(errno)));
  }
  data_ = static_cast<const std::byte*>(base_) + (offset - begin);
}

MappedWindow::~MappedWindow() {
  if (base_ != nullptr) ::munmap(base_, mapped_);
}

Receiver::Receiver(const plan::Plan& plan, const plan::Wire& wire, const plan::Switches& switches,
                   ThreadPool& pool, MemoryLedger& ledger, Hooks& hooks)
    : plan_(plan),
      wire_(wire),
      switches_(switches),
      pool_(pool),
      ledger_(ledger),
      hooks_(hooks),
      keys_(wire),
      routes_(plan, wire, switches.loader),
      canonical_offset_(plan.destinations.size()),
      scratch_(ledger) {
  std::uint64_t bytes = 0;
  for (std::size_t d = 0; d < plan.destinations.size(); ++d) {
    const plan::Destination& scale = plan.destinations[d];
    if (scale.scale_layout != plan::ScaleLayout::tiled_128x4) continue;
    canonical_offset_[d] = bytes;
    bytes += scale.matrices * scale.matrix_rows * scale_cols(plan, scale);
  }
  canonical_scales_.resize(bytes);
  ledger_.add(bytes);
}

Receiver::~Receiver() {
  ledger_.remove(canonical_scales_.size());
}

void Receiver::begin(std::span<std::byte> destinations, ReceiverEvidence* evidence) {
  destinations_ = destinations;
  evidence_ = evidence;
  keys_.reset();
  if (evidence != nullptr) {
    evidence->received.assign(wire_.entries.size(), 0);
    evidence->times_received.assign(wire_.entries.size(), 0);
  }
}

void Receiver::poison(std::byte value) {
  std::fill(canonical_scales_.begin(), canonical_scales_.end(), value);
}

void Receiver::map_slot(const BucketMessage& message, transport::Message& raw) {
  if (message.slot >= slots_.size())
    fail_input(fmt::format("a bucket names slot {}, there are 2", message.slot));
  Slot& slot = slots_[message.slot];
  if (!raw.fds.empty()) {
    slot.memory =
        transport::SharedMemory::map(std::move(raw.fds.front()), message.buffer_bytes, "a staging buffer");
    if (switches_.handles == plan::Handles::per_bucket) ++handles_opened_;
  }
  if (!slot.memory)
    fail_input(fmt::format("a bucket names slot {} before its memory was sent", message.slot));
  if (slot.memory.bytes().size() < message.buffer_bytes) {
    fail_input(fmt::format("a bucket says its buffer has {} bytes, {} are mapped", message.buffer_bytes,
                           slot.memory.bytes().size()));
  }
}

std::vector<const std::byte*> Receiver::open_handles(const BucketMessage& message, const plan::Bucket& bucket,
                                                     std::vector<MappedWindow>& windows) {
  const Slot& slot = slots_[message.slot];
  const std::size_t due = switches_.handles == plan::Handles::per_bucket ? 1 : bucket.entries;
  if (message.handles.size() != due) {
    fail_input(fmt::format("a bucket of {} tensors came with {} handles, {} were due", bucket.entries,
                           message.handles.size(), due));
  }
  std::vector<const std::byte*> bytes(bucket.entries);
  for (std::uint32_t i = 0; i < bucket.entries; ++i) {
    const std::uint64_t offset = wire_.offsets[bucket.first_entry + i];
    if (switches_.handles == plan::Handles::per_bucket) {
      bytes[i] = slot.memory.bytes().data() + offset;
      continue;
    }
    const BucketHandle& handle = message.handles[i];
    if (handle.offset != offset || handle.bytes != wire_.entries[bucket.first_entry + i].bytes) {
      fail_input(fmt::format("the handle of '{}' speaks of other bytes than its key",
                             wire_.entries[bucket.first_entry + i].name));
    }
    windows.emplace_back(slot.memory.fd(), handle.offset, handle.bytes);
    ++handles_opened_;
    bytes[i] = windows.back().data();
  }
  return bytes;
}

void Receiver::record(const plan::Bucket& bucket, const std::vector<const std::byte*>& bytes) {
  for (std::uint32_t i = 0; i < bucket.entries; ++i) {
    const std::uint32_t entry = bucket.first_entry + i;
    evidence_->received[entry] = digest({bytes[i], wire_.entries[entry].bytes});
    ++evidence_->times_received[entry];
  }
}

void Receiver::bucket(Conversation& trainer, transport::Message raw, Timeline& timeline) {
  timeline.enter("open");
  const BucketMessage message = decode_bucket_message(raw.body, switches_.handle_encoding);
  const plan::Bucket& what = keys_.read(message.keys, message.used_bytes, switches_.metadata);
  map_slot(message, raw);
  std::vector<MappedWindow> windows;
  const std::vector<const std::byte*> bytes = open_handles(message, what, windows);
  timeline.add(0, message.handles.size());

  const std::string acknowledgement(1, static_cast<char>(message.slot));
  const bool early = hooks_.acknowledge_before_reading();
  if (early) {
    trainer.send(MessageType::acknowledge, acknowledgement);
    // Long enough for the sender to have overwritten the buffer: its next message says so.
    for (int i = 0; i < 2000 && !trainer.ready(); ++i) ::usleep(1000);
  }
  if (evidence_ != nullptr) {
    timeline.enter("verify");
    record(what, bytes);
  }
  load(what, bytes, timeline);
  timeline.enter("open");
  windows.clear();
  timeline.enter("load");
  // Every view of the buffer is gone: the sender may use it again.
  if (!early) trainer.send(MessageType::acknowledge, acknowledgement);
}

Receiver::Landing Receiver::landing(std::uint32_t entry_index) {
  const std::size_t place = hooks_.place_of(plan_, wire_, entry_index);
  const plan::WireEntry& entry = wire_.entries[place];
  const Route route = routes_.find(static_cast<std::uint32_t>(place));
  const plan::Destination& to = plan_.destinations[route.destination];
  const std::uint64_t cols = plan_.segments[entry.segment].cols;
  const std::uint64_t row = route.row_begin + entry.row_begin;
  Landing landing{};
  landing.values =
      destinations_.data() + to.offset + route.matrix * to.matrix_bytes + row * cols * size_of(to.spec.dtype);
  if (to.scale != plan::kNone) {
    const plan::Destination& scale = plan_.destinations[to.scale];
    const std::uint64_t blocks = cols / quant::kBlock;
    const std::uint64_t first = (route.matrix * to.matrix_rows + row) * blocks;
    landing.scales = scale.scale_layout == plan::ScaleLayout::tiled_128x4
                         ? canonical_scales_.data() + canonical_offset_[to.scale] + first
                         : destinations_.data() + scale.offset + first;
  }
  return landing;
}

void Receiver::load(const plan::Bucket& bucket, const std::vector<const std::byte*>& bytes,
                    Timeline& timeline) {
  timeline.enter("load");
  for (std::uint32_t i = 0; i < bucket.entries; ++i) {
    const std::uint32_t entry = bucket.first_entry + i;
    switch (hooks_.install(plan_, wire_.entries[entry])) {
      case Hooks::Install::skip:
        break;
      case Hooks::Install::twice:
        install(entry, bytes[i], timeline);
        [[fallthrough]];
      case Hooks::Install::once:
        install(entry, bytes[i], timeline);
        break;
    }
  }
  quantize_pending(timeline);
}

void Receiver::install(std::uint32_t entry_index, const std::byte* bytes, Timeline& timeline) {
  const plan::WireEntry& entry = wire_.entries[entry_index];
  const plan::Segment& segment = plan_.segments[entry.segment];
  if (evidence_ != nullptr && !entry.scale) {
    evidence_->executed.push_back({entry.segment, entry.row_begin, entry.rows});
  }
  if (segment.op == plan::Op::quantize && !wire_.prequantized) {
    pending_.emplace_back(entry_index, bytes);
    if (pending_.size() >= tensors_per_call(switches_.quantize)) quantize_pending(timeline);
    return;
  }
  copy_entry(entry_index, bytes);
  timeline.add(entry.bytes * 2, 1);
}

void Receiver::copy_entry(std::uint32_t entry_index, const std::byte* bytes) {
  const plan::WireEntry& entry = wire_.entries[entry_index];
  const Landing to = landing(entry_index);
  parallel_copy(entry.scale ? to.scales : to.values, bytes, entry.bytes, pool_);
}

void Receiver::quantize_pending(Timeline& timeline) {
  if (pending_.empty()) return;
  timeline.enter("quantize");
  std::vector<QuantizeRows> pieces;
  std::uint64_t moved = 0;
  for (const auto& [entry_index, bytes] : pending_) {
    const plan::WireEntry& entry = wire_.entries[entry_index];
    const std::uint64_t cols = plan_.segments[entry.segment].cols;
    const Landing to = landing(entry_index);
    const std::uint64_t grain = std::max<std::uint64_t>(1, (256u << 10) / cols);
    for (std::uint64_t r = 0; r < entry.rows; r += grain) {
      pieces.push_back({bytes + r * cols * 2, to.values + r * cols, to.scales + r * (cols / quant::kBlock),
                        std::min(grain, entry.rows - r), cols, &entry.name, entry.row_begin + r});
    }
    moved += entry.rows * (cols * 3 + cols / quant::kBlock);
  }
  pool_.for_range(pieces.size(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t p = begin; p < end; ++p) quantize_rows(pieces[p], plan_.quant);
  });
  timeline.add(moved, 1);
  timeline.enter("load");
  pending_.clear();
}

void Receiver::finish(Timeline& timeline) {
  timeline.enter("load");
  keys_.finish();
  shuffle(timeline);
  swizzle(timeline);
  timeline.enter("open");
  if (switches_.ipc_buffers == plan::IpcBuffers::per_refit) slots_ = {};
}

void Receiver::shuffle(Timeline& timeline) {
  timeline.enter("shuffle");
  for (const plan::Destination& weight : plan_.destinations) {
    if (weight.row_map == plan::kNone || weight.scale_of != plan::kNone) continue;
    const unsigned times = hooks_.shuffles(plan_, weight);
    for (unsigned i = 0; i < times; ++i) shuffle_destination(weight, timeline);
  }
}

void Receiver::shuffle_destination(const plan::Destination& weight, Timeline& timeline) {
  const std::vector<std::uint32_t> source_rows = layout::inverse(plan_.row_maps[weight.row_map]);
  const layout::ExpertRows one{1, weight.matrix_rows, weight.matrix_bytes / weight.matrix_rows};
  std::byte* const data = destinations_.data() + weight.offset;
  if (switches_.shuffle == plan::Shuffle::batched) {
    // One call for all experts; each thread moves one expert at a time through its own scratch.
    std::byte* const scratch = scratch_.reserve(pool_.threads() * weight.matrix_bytes);
    std::atomic<std::uint64_t> next_matrix{0};
    pool_.for_range(pool_.threads(), 1, [&](std::size_t thread, std::size_t) {
      std::byte* const own = scratch + thread * weight.matrix_bytes;
      for (std::uint64_t m = 0; (m = next_matrix.fetch_add(1)) < weight.matrices;) {
        std::byte* const matrix = data + m * weight.matrix_bytes;
        std::memcpy(own, matrix, weight.matrix_bytes);
        layout::gather_rows_batched(as_u8(const_cast<const std::byte*>(own), weight.matrix_bytes), one,
                                    source_rows, as_u8(matrix, weight.matrix_bytes));
      }
    });
    timeline.add(2 * weight.matrices * weight.matrix_bytes, 1);
    return;
  }
  for (std::uint64_t m = 0; m < weight.matrices; ++m) {
    // Upstream makes a new tensor for every expert and copies it back.
    std::vector<std::uint8_t> shuffled(weight.matrix_bytes);
    ledger_.add(shuffled.size());
    std::byte* const matrix = data + m * weight.matrix_bytes;
    pool_.for_range(weight.matrix_rows, 128, [&](std::size_t begin, std::size_t end) {
      for (std::size_t n = begin; n < end; ++n) {
        std::memcpy(shuffled.data() + n * one.row_bytes, matrix + source_rows[n] * one.row_bytes,
                    one.row_bytes);
      }
    });
    parallel_copy(matrix, reinterpret_cast<const std::byte*>(shuffled.data()), shuffled.size(), pool_);
    ledger_.remove(shuffled.size());
    timeline.add(2 * weight.matrix_bytes, 1);
  }
}

void Receiver::swizzle(Timeline& timeline) {
  timeline.enter("swizzle");
  for (std::uint32_t d = 0; d < plan_.destinations.size(); ++d) {
    if (plan_.destinations[d].scale_layout == plan::ScaleLayout::tiled_128x4)
      swizzle_destination(d, timeline);
  }
  hooks_.installed(plan_, destinations_);
}

void Receiver::swizzle_destination(std::uint32_t index, Timeline& timeline) {
  const plan::Destination& scale = plan_.destinations[index];
  const plan::Destination& weight = plan_.destinations[scale.scale_of];
  const std::uint64_t cols = scale_cols(plan_, scale);
  const std::uint64_t canonical_bytes = scale.matrix_rows * cols;
  std::byte* const canonical = canonical_scales_.data() + canonical_offset_[index];
  hooks_.before_swizzle(plan_, scale, {canonical, scale.matrices * canonical_bytes});

  std::vector<std::uint32_t> source_rows;
  if (weight.row_map != plan::kNone) source_rows = layout::inverse(plan_.row_maps[weight.row_map]);
  const layout::ExpertRows one{1, scale.matrix_rows, cols};
  const auto lay_out = [&](std::uint64_t m, std::span<std::uint8_t> rows) {
    std::span<const std::uint8_t> in =
        as_u8(const_cast<const std::byte*>(canonical) + m * canonical_bytes, canonical_bytes);
    if (!source_rows.empty()) {
      layout::gather_rows_batched(in, one, source_rows, rows);
      in = rows;
    }
    layout::tile_scales_128x4(
        in, scale.matrix_rows, cols,
        as_u8(destinations_.data() + scale.offset + m * scale.matrix_bytes, scale.matrix_bytes));
  };
  const std::uint64_t moved = canonical_bytes + scale.matrix_bytes;
  if (switches_.shuffle == plan::Shuffle::batched) {
    pool_.for_range(scale.matrices, 1, [&](std::size_t begin, std::size_t end) {
      std::vector<std::uint8_t> rows(canonical_bytes);
      for (std::size_t m = begin; m < end; ++m) lay_out(m, rows);
    });
    timeline.add(scale.matrices * moved, 1);
    return;
  }
  for (std::uint64_t m = 0; m < scale.matrices; ++m) {
    std::vector<std::uint8_t> rows(canonical_bytes);
    lay_out(m, rows);
    timeline.add(moved, 1);
  }
}

}  // namespace refit::run
