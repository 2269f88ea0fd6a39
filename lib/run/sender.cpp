// Buckets are filled in the wire's order; at most one batch of quantized tensors waits in scratch.
#include "run/sender.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "refit/base/digest.hpp"
#include "refit/base/error.hpp"
#include "run/batching.hpp"
#include "run/segments.hpp"

namespace refit::run {
namespace {

bool quantized_entry(const plan::Plan& plan, const plan::Wire& wire, const plan::WireEntry& entry) {
  return wire.prequantized && plan.segments[entry.segment].op == plan::Op::quantize;
}

}  // namespace

Sender::Sender(const plan::Plan& plan, const plan::Wire& wire, const plan::Switches& switches,
               std::span<const std::byte> sources, ThreadPool& pool, MemoryLedger& ledger, Hooks& hooks)
    : plan_(plan),
      wire_(wire),
      switches_(switches),
      sources_(sources),
      pool_(pool),
      hooks_(hooks),
      buffers_(switches, wire, ledger),
      scratch_(ledger),
      gathered_(wire.entries.size()),
      quantized_(wire.entries.size()) {
  for (std::uint32_t s = 0; s < plan.sources.size(); ++s)
    source_by_name_.emplace(plan.sources[s].spec.name, s);
}

const std::byte* Sender::source_rows(const plan::WireEntry& entry) const {
  const plan::Segment& segment = plan_.segments[entry.segment];
  // The export iterator hands tensors out by name.
  const auto found = source_by_name_.find(plan_.sources[segment.source].spec.name);
  const plan::Source& source = plan_.sources[found->second];
  const std::uint64_t row_bytes = segment.cols * size_of(source.spec.dtype);
  return sources_.data() + source.offset + (segment.source_row + entry.row_begin) * row_bytes;
}

void Sender::quantize_from(std::uint32_t first, Timeline& timeline) {
  const std::size_t limit = tensors_per_call(switches_.quantize);
  std::vector<std::uint32_t> batch;  // value entries; each is followed by its scale entry
  std::uint64_t bytes = 0, moved = 0;
  std::uint32_t next = first;
  while (next < wire_.entries.size() && batch.size() < limit &&
         quantized_entry(plan_, wire_, wire_.entries[next])) {
    batch.push_back(next);
    bytes += wire_.entries[next].bytes + wire_.entries[next + 1].bytes;
    moved += wire_.entries[next].bytes * 3 + wire_.entries[next + 1].bytes;
    next += 2;
  }
  std::byte* out = scratch_.reserve(bytes);
  for (const std::uint32_t entry : batch) {
    for (const std::uint32_t e : {entry, entry + 1}) {
      quantized_[e] = out;
      out += wire_.entries[e].bytes;
    }
    if (gathered_[entry] == nullptr) gathered_[entry] = source_rows(wire_.entries[entry]);
  }
  quantized_end_ = next;

  struct Rows {
    std::uint32_t entry;
    std::uint64_t begin, count;
  };
  std::vector<Rows> pieces;
  for (const std::uint32_t entry : batch) {
    const plan::WireEntry& e = wire_.entries[entry];
    const std::uint64_t cols = plan_.segments[e.segment].cols;
    const std::uint64_t grain = std::max<std::uint64_t>(1, (256u << 10) / cols);
    for (std::uint64_t r = 0; r < e.rows; r += grain)
      pieces.push_back({entry, r, std::min(grain, e.rows - r)});
  }
  pool_.for_range(pieces.size(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t p = begin; p < end; ++p) {
      const auto [entry, row, rows] = pieces[p];
      const plan::Segment& segment = plan_.segments[wire_.entries[entry].segment];
      const std::uint64_t cols = segment.cols;
      quantize_rows({gathered_[entry] + row * cols * 2, quantized_[entry] + row * cols,
                     quantized_[entry + 1] + row * (cols / quant::kBlock), rows, cols,
                     &plan_.sources[segment.source].spec.name,
                     segment.source_row + wire_.entries[entry].row_begin + row},
                    hooks_.quantize_options(segment, plan_.quant));
    }
  });
  timeline.add(moved, 1);
}

void Sender::pack_bucket(std::size_t bucket, std::span<std::byte> out, Timeline& timeline) {
  const plan::Bucket& what = wire_.buckets[bucket];
  const std::uint32_t end = what.first_entry + what.entries;
  timeline.enter("gather");
  for (std::uint32_t e = what.first_entry; e < end; ++e) {
    if (!wire_.entries[e].scale) gathered_[e] = source_rows(wire_.entries[e]);
  }
  timeline.add(0, what.entries);
  for (std::uint32_t e = what.first_entry; e < end; ++e) {
    const plan::WireEntry& entry = wire_.entries[e];
    const plan::Segment& segment = plan_.segments[entry.segment];
    const bool quantized = quantized_entry(plan_, wire_, entry);
    if (quantized && e >= quantized_end_) {
      timeline.enter("quantize");
      quantize_from(e, timeline);
    }
    timeline.enter("pack");
    std::byte* const to = out.data() + wire_.offsets[e];
    if (segment.op == plan::Op::round_bf16) {
      for (std::uint64_t i = 0; i < entry.rows * segment.cols; ++i) {
        float value;
        std::memcpy(&value, gathered_[e] + i * 4, 4);
        // The defect: what is sent as FP32 went through BF16 on the way.
        const float rounded = quant::bf16_value(quant::bf16_from_float(value));
        std::memcpy(to + i * 4, &rounded, 4);
      }
    } else {
      parallel_copy(to, quantized ? quantized_[e] : gathered_[e], entry.bytes, pool_);
    }
    timeline.add(entry.bytes * 2, 1);
  }
}

void Sender::wait_for_slot(Conversation& generator, BucketBuffers::Slot& slot, Timeline& timeline) {
  if (!slot.in_flight) return;
  timeline.enter("wait");
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
  message.keys = keys;
  if (switches_.handles == plan::Handles::per_bucket) {
    message.handles.push_back({0, what.used_bytes});
  } else {
    for (std::uint32_t e = what.first_entry; e < what.first_entry + what.entries; ++e) {
      message.handles.push_back({wire_.offsets[e], wire_.entries[e].bytes});
    }
  }
  std::vector<int> fds;
  if (!slot.announced) fds.push_back(slot.memory.fd());
  generator.send(MessageType::bucket, encode_bucket_message(message, switches_.handle_encoding), fds);
  slot.announced = true;
  slot.in_flight = true;
}

void Sender::run(Conversation& generator, Timeline& timeline, SenderEvidence* evidence) {
  quantized_end_ = 0;
  std::fill(gathered_.begin(), gathered_.end(), nullptr);
  if (evidence != nullptr) evidence->sent.assign(wire_.entries.size(), 0);
  for (std::size_t b = 0; b < wire_.buckets.size(); ++b) {
    timeline.enter("allocate");
    BucketBuffers::Slot& slot = buffers_.slot_for(b);
    wait_for_slot(generator, slot, timeline);
    const std::span<std::byte> out = slot.memory.bytes().first(buffers_.slot_bytes());
    pack_bucket(b, out, timeline);
    hooks_.packed(plan_, wire_, b, out);
    if (evidence != nullptr) {
      timeline.enter("verify");
      evidence->packed.merge(verify::check_packed(plan_, wire_, b, out, sources_, pool_));
      const plan::Bucket& what = wire_.buckets[b];
      for (std::uint32_t e = what.first_entry; e < what.first_entry + what.entries; ++e) {
        evidence->sent[e] = digest(out.subspan(wire_.offsets[e], wire_.entries[e].bytes));
      }
    }
    hooks_.in_transit(plan_, wire_, b, out);
    timeline.enter("publish");
    publish(generator, b, slot);
  }
  for (std::uint32_t s = 0; s < buffers_.slots(); ++s) wait_for_slot(generator, buffers_.slot(s), timeline);
  if (evidence != nullptr) evidence->guards_intact = buffers_.guards_intact();
  if (switches_.ipc_buffers == plan::IpcBuffers::per_refit) {
    timeline.enter("allocate");
    buffers_.release();
  }
}

}  // namespace refit::run
