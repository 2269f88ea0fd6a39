// Buckets are filled in the wire's order. quantize=per-tensor makes a tensor first and packs it then, as
// upstream does; the others write straight into the bucket.
#include "run/sender.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "refit/base/error.hpp"
#include "run/batching.hpp"
#include "run/host_view.hpp"
#include "run/moved_bytes.hpp"

namespace refit::run {

Sender::Sender(const plan::Plan& plan, const plan::Wire& wire, const plan::Switches& switches,
               std::span<const std::byte> sources, device::Backend& backend, MemoryLedger& ledger,
               Hooks& hooks)
    : plan_(plan),
      wire_(wire),
      switches_(switches),
      sources_(sources),
      backend_(backend),
      hooks_(hooks),
      buffers_(backend, switches, wire, ledger),
      scratch_(backend, ledger),
      next_scales_{Scratch(backend, ledger), Scratch(backend, ledger)},
      replays_(wire.buckets.size()),
      gathered_(wire.entries.size()),
      quantized_(wire.entries.size()) {
  for (std::uint32_t s = 0; s < plan.sources.size(); ++s)
    source_by_name_.emplace(plan.sources[s].spec.name, s);
  // Prepared work remembers where they wait, so that place must never move.
  for (const plan::WireEntry& entry : wire.entries) {
    if (entry.scale) largest_scales_ = std::max(largest_scales_, entry.bytes);
  }
}

bool Sender::quantized(std::uint32_t entry) const {
  return wire_.prequantized && plan_.segments[wire_.entries[entry].segment].op == plan::Op::quantize;
}

const std::byte* Sender::source_rows(const plan::WireEntry& entry) const {
  const plan::Segment& segment = plan_.segments[entry.segment];
  // The export iterator hands tensors out by name.
  const auto found = source_by_name_.find(plan_.sources[segment.source].spec.name);
  const plan::Source& source = plan_.sources[found->second];
  const std::uint64_t row_bytes = segment.cols * size_of(source.spec.dtype);
  return sources_.data() + source.offset + (segment.source_row + entry.row_begin) * row_bytes;
}

device::Task Sender::quantize_task(std::uint32_t entry, std::byte* values, std::byte* scales) const {
  const plan::WireEntry& e = wire_.entries[entry];
  const plan::Segment& segment = plan_.segments[e.segment];
  device::Task task;
  task.op = device::Op::quantize;
  task.options = hooks_.quantize_options(segment, plan_.quant);
  task.from = gathered_[entry];
  task.values = values;
  task.scales = scales;
  task.rows = e.rows;
  task.cols = segment.cols;
  task.row_bytes = segment.cols * 2;
  task.scale_layout = plan::ScaleLayout::row_major;
  task.tensor = &plan_.sources[segment.source].spec.name;
  task.first_row = segment.source_row + e.row_begin;
  return task;
}

void Sender::quantize_to_scratch(std::uint32_t entry, Stages& stages) {
  stages.enter("quantize");
  const std::uint64_t values = wire_.entries[entry].bytes, scales = wire_.entries[entry + 1].bytes;
  std::byte* const out = scratch_.reserve(values + scales, "a quantized tensor");
  quantized_[entry] = out;
  quantized_[entry + 1] = out + values;
  const device::Task task = quantize_task(entry, out, out + values);
  backend_.run({&task, 1});
  stages.add(values * 3 + scales, 1);
}

void Sender::run_batch(Stages& stages) {
  if (batch_.empty()) return;
  stages.enter("quantize");
  backend_.run(batch_);
  stages.add(moved_by(batch_), 1);
  batch_.clear();
}

device::Task Sender::copy_task(std::uint32_t e, std::byte* to) const {
  const plan::WireEntry& entry = wire_.entries[e];
  const plan::Segment& segment = plan_.segments[entry.segment];
  device::Task task;
  task.from = quantized(e) ? quantized_[e] : gathered_[e];
  task.values = to;
  task.rows = entry.rows;
  task.row_bytes = entry.scale ? segment.cols / quant::kBlock : segment.cols * size_of(entry.dtype);
  task.cols = task.row_bytes;
  if (segment.op == plan::Op::round_bf16) {
    task.op = device::Op::round_bf16;
    task.cols = segment.cols;
  }
  return task;
}

void Sender::pack_entry(std::uint32_t e, std::byte* to, Stages& stages) {
  const std::uint64_t bytes = wire_.entries[e].bytes;
  stages.enter("pack");
  const device::Task task = copy_task(e, to);
  if (task.op == device::Op::copy) {
    backend_.copy(to, task.from, bytes);
  } else {
    backend_.run({&task, 1});
  }
  stages.add(bytes * 2, 1);
}

std::byte* Sender::scales_place(std::size_t bucket, std::uint32_t entry, std::span<std::byte> out) {
  const plan::Bucket& what = wire_.buckets[bucket];
  if (entry + 1 < what.first_entry + what.entries) return out.data() + wire_.offsets[entry + 1];
  // They travel in the next bucket, and wait for it where nothing overwrites them.
  std::byte* const kept =
      next_scales_[bucket % next_scales_.size()].reserve(largest_scales_, "scales of the next bucket");
  quantized_[entry + 1] = kept;
  return kept;
}

void Sender::gather(const plan::Bucket& what, Stages& stages) {
  stages.enter("gather");
  for (std::uint32_t e = what.first_entry; e < what.first_entry + what.entries; ++e) {
    if (!wire_.entries[e].scale) gathered_[e] = source_rows(wire_.entries[e]);
  }
  stages.add(0, what.entries);
}

void Sender::pack_in_one_call(std::size_t bucket, std::span<std::byte> out, Stages& stages) {
  const Replays::Places places{sources_.data(), out.data()};
  const Replays::Replay* replay = hooks_.planted() ? nullptr : replays_.find(bucket, places);
  if (replay == nullptr) {
    const plan::Bucket& what = wire_.buckets[bucket];
    const std::uint32_t end = what.first_entry + what.entries;
    gather(what, stages);
    stages.enter("pack");
    for (std::uint32_t e = what.first_entry; e < end; ++e) {
      std::byte* const to = out.data() + wire_.offsets[e];
      if (quantized(e) && !wire_.entries[e].scale) {
        batch_.push_back(quantize_task(e, to, scales_place(bucket, e, out)));
        if (e + 1 < end) ++e;
      } else {
        batch_.push_back(copy_task(e, to));
      }
    }
    replay = &replays_.keep(bucket, {backend_.prepare(batch_), moved_by(batch_), places});
    batch_.clear();
  }
  stages.enter("pack");
  backend_.run(*replay->program);
  stages.add(replay->bytes, 1);
}

void Sender::pack_bucket(std::size_t bucket, std::span<std::byte> out, Stages& stages) {
  if (switches_.quantize == plan::Quantize::per_bucket) return pack_in_one_call(bucket, out, stages);
  const plan::Bucket& what = wire_.buckets[bucket];
  const std::uint32_t end = what.first_entry + what.entries;
  gather(what, stages);
  for (std::uint32_t e = what.first_entry; e < end; ++e) {
    std::byte* const to = out.data() + wire_.offsets[e];
    if (quantized(e) && !wire_.entries[e].scale) {
      if (switches_.quantize == plan::Quantize::batched) {
        batch_.push_back(quantize_task(e, to, scales_place(bucket, e, out)));
        if (batch_.size() >= tensors_per_call(switches_.quantize)) run_batch(stages);
        if (e + 1 < end) ++e;
        continue;
      }
      quantize_to_scratch(e, stages);
    }
    pack_entry(e, to, stages);
  }
  run_batch(stages);
}

void Sender::wait_for_slot(Conversation& generator, BucketBuffers::Slot& slot, Stages& stages) {
  if (!slot.in_flight) return;
  stages.enter("wait");
  while (slot.in_flight) {
    const transport::Message message = generator.expect(MessageType::acknowledge);
    if (message.body.size() != 1 || static_cast<std::uint8_t>(message.body[0]) >= buffers_.slots()) {
      fail_runtime("the generator acknowledged a buffer that does not exist");
    }
    buffers_.slot(static_cast<std::uint8_t>(message.body[0])).in_flight = false;
  }
}

void Sender::publish(Conversation& generator, std::size_t bucket, BucketBuffers::Slot& slot) {
  const plan::Bucket& what = wire_.buckets[bucket];
  const std::string keys = plan::encode_bucket(wire_, bucket, switches_.metadata);
  BucketMessage message;
  message.slot = buffers_.index_for(bucket);
  message.used_bytes = what.used_bytes;
  message.buffer_bytes = buffers_.slot_bytes();
  message.memory_bytes = slot.memory->bytes().size();
  message.keys = keys;
  if (switches_.handles == plan::Handles::per_bucket) {
    message.handles.push_back({0, what.used_bytes});
  } else {
    for (std::uint32_t e = what.first_entry; e < what.first_entry + what.entries; ++e) {
      message.handles.push_back({wire_.offsets[e], wire_.entries[e].bytes});
    }
  }
  const device::Memory::Handle handle = slot.announced ? device::Memory::Handle{} : slot.memory->handle();
  message.announces = !slot.announced;
  message.token = handle.token;
  std::vector<int> fds;
  if (handle.fd >= 0) fds.push_back(handle.fd);
  generator.send(MessageType::bucket, encode_bucket_message(message, switches_.handle_encoding), fds);
  slot.announced = true;
  slot.in_flight = true;
}

void Sender::record(std::size_t bucket, std::span<const std::byte> packed, SenderEvidence& evidence) {
  device::Checker& checker = backend_.checker();
  evidence.packed.merge(
      checker.check_packed(plan_, wire_, bucket, packed, sources_, &evidence.wrong_entries));
  const plan::Bucket& what = wire_.buckets[bucket];
  std::vector<std::span<const std::byte>> entries;
  for (std::uint32_t e = what.first_entry; e < what.first_entry + what.entries; ++e) {
    entries.push_back(packed.subspan(wire_.offsets[e], wire_.entries[e].bytes));
  }
  const std::vector<std::uint64_t> digests = checker.digests(entries);
  std::copy(digests.begin(), digests.end(), evidence.sent.begin() + what.first_entry);
}

void Sender::run(Conversation& generator, Stages& stages, SenderEvidence* evidence) {
  std::fill(gathered_.begin(), gathered_.end(), nullptr);
  batch_.clear();
  if (evidence != nullptr) evidence->sent.assign(wire_.entries.size(), 0);
  for (std::size_t b = 0; b < wire_.buckets.size(); ++b) {
    stages.enter("allocate");
    BucketBuffers::Slot& slot = buffers_.slot_for(b);
    wait_for_slot(generator, slot, stages);
    const std::span<std::byte> out = slot.memory->bytes().first(buffers_.slot_bytes());
    pack_bucket(b, out, stages);
    stages.enter("synchronize");
    backend_.finish(generator.device_deadline());
    if (hooks_.planted()) {
      with_host_view(backend_, out, [&](std::span<std::byte> host) { hooks_.packed(plan_, wire_, b, host); });
    }
    if (evidence != nullptr) {
      stages.enter("verify");
      record(b, out, *evidence);
    }
    if (hooks_.planted()) {
      with_host_view(backend_, out,
                     [&](std::span<std::byte> host) { hooks_.in_transit(plan_, wire_, b, host); });
    }
    stages.enter("publish");
    publish(generator, b, slot);
  }
  for (std::uint32_t s = 0; s < buffers_.slots(); ++s) wait_for_slot(generator, buffers_.slot(s), stages);
  if (evidence != nullptr) evidence->guards_intact = buffers_.guards_intact();
}

void Sender::end(Stages& stages) {
  if (switches_.ipc_buffers == plan::IpcBuffers::persistent) return;
  stages.enter("allocate");
  buffers_.release();
}

}  // namespace refit::run
