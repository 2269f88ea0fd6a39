// Rows land in canonical order in the parameters themselves, and the shuffle then moves them in place, as
// upstream does; with shuffle=fused they go to their stored place at once.
#include "run/receiver.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "refit/base/error.hpp"
#include "refit/layout/scale_128x4.hpp"
#include "refit/quant/mxfp8.hpp"
#include "run/batching.hpp"
#include "run/host_view.hpp"
#include "run/moved_bytes.hpp"

namespace refit::run {

Receiver::Receiver(const plan::Plan& plan, const plan::Wire& wire, const plan::Switches& switches,
                   device::Backend& backend, MemoryLedger& ledger, Hooks& hooks)
    : plan_(plan),
      wire_(wire),
      switches_(switches),
      backend_(backend),
      ledger_(ledger),
      hooks_(hooks),
      keys_(wire),
      routes_(plan, wire, switches.loader),
      relayout_(plan, switches, backend, ledger, hooks),
      replays_(wire.buckets.size()) {}

void Receiver::begin(std::span<std::byte> destinations, ReceiverEvidence* evidence) {
  destinations_ = destinations;
  evidence_ = evidence;
  keys_.reset();
  loads_.clear();
  quantizes_.clear();
  if (evidence != nullptr) {
    evidence->received.assign(wire_.entries.size(), 0);
    evidence->times_received.assign(wire_.entries.size(), 0);
  }
}

void Receiver::open_slot(const BucketMessage& message, transport::Message& raw) {
  if (message.slot >= slots_.size())
    fail_input(fmt::format("a bucket names slot {}, there are 2", message.slot));
  std::unique_ptr<device::Memory>& slot = slots_[message.slot];
  if (message.announces) {
    slot.reset();
    transport::UniqueFd fd;
    if (!raw.fds.empty()) fd = std::move(raw.fds.front());
    slot = backend_.open(std::string(message.token), std::move(fd), message.memory_bytes, "a staging buffer");
  }
  if (slot == nullptr)
    fail_input(fmt::format("a bucket names slot {} before its memory was sent", message.slot));
  if (slot->bytes().size() < message.buffer_bytes) {
    fail_input(fmt::format("a bucket says its buffer has {} bytes, {} are mapped", message.buffer_bytes,
                           slot->bytes().size()));
  }
}

std::vector<const std::byte*> Receiver::open_handles(const BucketMessage& message, const plan::Bucket& bucket,
                                                     Windows& windows) {
  const device::Memory& slot = *slots_[message.slot];
  const std::size_t due = switches_.handles == plan::Handles::per_bucket ? 1 : bucket.entries;
  if (message.handles.size() != due) {
    fail_input(fmt::format("a bucket of {} tensors came with {} handles, {} were due", bucket.entries,
                           message.handles.size(), due));
  }
  std::vector<const std::byte*> bytes(bucket.entries);
  for (std::uint32_t i = 0; i < bucket.entries; ++i) {
    const std::uint64_t offset = wire_.offsets[bucket.first_entry + i];
    if (switches_.handles == plan::Handles::per_bucket) {
      bytes[i] = slot.bytes().data() + offset;
      continue;
    }
    const BucketHandle& handle = message.handles[i];
    if (handle.offset != offset || handle.bytes != wire_.entries[bucket.first_entry + i].bytes) {
      fail_input(fmt::format("the handle of '{}' speaks of other bytes than its key",
                             wire_.entries[bucket.first_entry + i].name));
    }
    windows.push_back(slot.window(handle.offset, handle.bytes));
    bytes[i] = windows.back()->bytes().data();
  }
  return bytes;
}

void Receiver::record(const plan::Bucket& bucket, const std::vector<const std::byte*>& bytes) {
  std::vector<std::span<const std::byte>> entries;
  for (std::uint32_t i = 0; i < bucket.entries; ++i) {
    entries.emplace_back(bytes[i], wire_.entries[bucket.first_entry + i].bytes);
    ++evidence_->times_received[bucket.first_entry + i];
  }
  const std::vector<std::uint64_t> digests = backend_.checker().digests(entries);
  std::copy(digests.begin(), digests.end(), evidence_->received.begin() + bucket.first_entry);
}

void Receiver::bucket(Conversation& trainer, transport::Message raw, Stages& stages) {
  stages.enter("open");
  const BucketMessage message = decode_bucket_message(raw.body, switches_.handle_encoding);
  const plan::Bucket& what = keys_.read(message.keys, message.used_bytes, switches_.metadata);
  open_slot(message, raw);
  Windows windows;
  const std::vector<const std::byte*> bytes = open_handles(message, what, windows);
  stages.add(0, message.handles.size());

  const std::string acknowledgement(1, static_cast<char>(message.slot));
  const bool early = hooks_.acknowledge_before_reading();
  if (early) {
    trainer.send(MessageType::acknowledge, acknowledgement);
    // Long enough for the sender to have overwritten the buffer: its next message says so.
    for (int i = 0; i < 2000 && !trainer.ready(); ++i) ::usleep(1000);
  }
  if (const double held_up = hooks_.delay_before_reading(); held_up > 0) backend_.delay(held_up);
  if (evidence_ != nullptr) {
    stages.enter("verify");
    record(what, bytes);
  }
  load(static_cast<std::size_t>(&what - wire_.buckets.data()), bytes, stages);
  stages.enter("synchronize");
  backend_.finish(trainer.device_deadline());
  stages.enter("open");
  windows.clear();
  stages.enter("load");
  // Nothing reads the buffer any more: the sender may use it again.
  if (!early) trainer.send(MessageType::acknowledge, acknowledgement);
}

device::Task Receiver::task_for(std::uint32_t entry_index, const std::byte* bytes) {
  const std::size_t place = hooks_.place_of(plan_, wire_, entry_index);
  const plan::WireEntry& entry = wire_.entries[place];
  const Route route = routes_.find(static_cast<std::uint32_t>(place));
  const plan::Destination& to = plan_.destinations[route.destination];
  const bool fused = switches_.shuffle == plan::Shuffle::fused;
  const plan::Segment& segment = plan_.segments[entry.segment];
  const std::uint64_t blocks = segment.cols / quant::kBlock;

  device::Task task;
  task.from = bytes;
  task.row_begin = route.row_begin + entry.row_begin;
  task.rows = entry.rows;
  task.row_bytes = entry.scale ? blocks : segment.cols * size_of(entry.dtype);
  task.cols = segment.cols;
  task.options = plan_.quant;
  task.tensor = &plan_.sources[segment.source].spec.name;
  task.first_row = segment.source_row + entry.row_begin;
  if (fused && to.row_map != plan::kNone) task.row_map = &plan_.row_maps[to.row_map];
  task.values = destinations_.data() + to.offset + route.matrix * to.matrix_bytes;
  if (to.scale != plan::kNone) {
    const plan::Destination& scale = plan_.destinations[to.scale];
    std::byte* const canonical = relayout_.canonical_scales(to.scale, route.matrix);
    task.scale_layout = canonical == nullptr ? scale.scale_layout : plan::ScaleLayout::row_major;
    task.scales = canonical != nullptr
                      ? canonical
                      : destinations_.data() + scale.offset + route.matrix * scale.matrix_bytes;
  }
  if (entry.scale) {
    task.op = device::Op::scales;
    task.cols = blocks;
  } else if (segment.op == plan::Op::quantize && !wire_.prequantized) {
    task.op = device::Op::quantize;
  } else {
    task.cols = task.row_bytes;
  }
  return task;
}

void Receiver::load(std::size_t bucket, const std::vector<const std::byte*>& bytes, Stages& stages) {
  stages.enter("load");
  // Where every route, every buffer and every handle stays, a bucket's load is the same in every refit.
  const bool same_again = switches_.loader == plan::Loader::cached &&
                          switches_.handles == plan::Handles::per_bucket &&
                          switches_.ipc_buffers == plan::IpcBuffers::persistent && !hooks_.planted();
  const bool one_list = wire_.prequantized || switches_.quantize == plan::Quantize::per_bucket;
  if (same_again && one_list) return replay(bucket, bytes, stages);
  const plan::Bucket& what = wire_.buckets[bucket];
  for (std::uint32_t i = 0; i < what.entries; ++i) {
    const std::uint32_t entry = what.first_entry + i;
    switch (hooks_.install(plan_, wire_.entries[entry])) {
      case Hooks::Install::skip:
        break;
      case Hooks::Install::twice:
        install(entry, bytes[i], stages);
        [[fallthrough]];
      case Hooks::Install::once:
        install(entry, bytes[i], stages);
        break;
    }
  }
  run_quantize(stages);
  run_loads(stages);
}

void Receiver::replay(std::size_t bucket, const std::vector<const std::byte*>& bytes, Stages& stages) {
  const plan::Bucket& what = wire_.buckets[bucket];
  const Replays::Places places{bytes.front(), destinations_.data()};
  const Replays::Replay* known = replays_.find(bucket, places);
  if (known == nullptr) {
    for (std::uint32_t i = 0; i < what.entries; ++i)
      loads_.push_back(task_for(what.first_entry + i, bytes[i]));
    known = &replays_.keep(bucket, {backend_.prepare(loads_), moved_by(loads_), places});
    loads_.clear();
  }
  for (std::uint32_t i = 0; i < what.entries; ++i) record_installed(what.first_entry + i);
  backend_.run(*known->program);
  stages.add(known->bytes, 1);
}

void Receiver::record_installed(std::uint32_t entry_index) {
  const plan::WireEntry& entry = wire_.entries[entry_index];
  if (evidence_ != nullptr && !entry.scale) {
    evidence_->executed.push_back({entry.segment, entry.row_begin, entry.rows});
  }
}

void Receiver::install(std::uint32_t entry_index, const std::byte* bytes, Stages& stages) {
  record_installed(entry_index);
  const device::Task task = task_for(entry_index, bytes);
  if (task.op == device::Op::quantize) {
    quantizes_.push_back(task);
    if (quantizes_.size() >= tensors_per_call(switches_.quantize)) run_quantize(stages);
    return;
  }
  loads_.push_back(task);
  // A loader that knows its routes copies a bucket at once, one that looks each up copies it as it comes.
  if (switches_.loader == plan::Loader::lookup) run_loads(stages);
}

void Receiver::run_loads(Stages& stages) {
  if (loads_.empty()) return;
  stages.enter("load");
  backend_.run(loads_);
  stages.add(moved_by(loads_), 1);
  loads_.clear();
}

void Receiver::run_quantize(Stages& stages) {
  if (quantizes_.empty()) return;
  stages.enter("quantize");
  backend_.run(quantizes_);
  stages.add(moved_by(quantizes_), 1);
  quantizes_.clear();
  stages.enter("load");
}

void Receiver::finish(Stages& stages, Deadline deadline) {
  stages.enter("load");
  keys_.finish();
  relayout_.run(destinations_, stages, evidence_ == nullptr ? nullptr : &evidence_->executed);
  stages.enter("synchronize");
  backend_.finish(deadline);
  if (hooks_.planted()) {
    with_host_view(backend_, destinations_,
                   [&](std::span<std::byte> host) { hooks_.installed(plan_, host); });
  }
  stages.enter("open");
  if (switches_.ipc_buffers == plan::IpcBuffers::per_refit) slots_ = {};
}

}  // namespace refit::run
