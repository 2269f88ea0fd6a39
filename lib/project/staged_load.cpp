// Mirrors lib/run's sender, receiver and relayout: which switch makes which calls.
#include "project/staged_load.hpp"

#include <algorithm>
#include <utility>

#include "refit/quant/mxfp8.hpp"
#include "run/batching.hpp"

namespace refit::project {
namespace {

/// Of each source of the plan, by its index in the model.
struct Remote {
  std::uint64_t peer = 0, network = 0;
};

/// Each byte that no rank of the domain holds comes in once over all of the domain's network ports; each that
/// the rank itself does not hold comes to it over the domain's links.
std::vector<Remote> remote_bytes(const plan::Plan& plan, const Gathering& gathering) {
  const std::uint32_t domain = gathering.rank / gathering.ranks_per_domain;
  const std::uint32_t in_domain =
      std::min(gathering.ranks_per_domain, gathering.trainer.ranks() - domain * gathering.ranks_per_domain);
  std::vector<std::uint8_t> by_rank, by_domain;  // of each group of holders
  for (const std::vector<std::uint32_t>& holders : gathering.trainer.groups()) {
    by_rank.push_back(std::binary_search(holders.begin(), holders.end(), gathering.rank) ? 1 : 0);
    by_domain.push_back(
        std::any_of(holders.begin(), holders.end(),
                    [&](std::uint32_t rank) { return rank / gathering.ranks_per_domain == domain; })
            ? 1
            : 0);
  }
  std::vector<Remote> remote(plan.sources.size());
  std::vector<reshard::Shard> shards;
  for (std::uint32_t tensor = 0; tensor < plan.sources.size(); ++tensor) {
    gathering.trainer.shards(tensor, shards);
    const std::uint64_t element = size_of(plan.sources[tensor].spec.dtype);
    for (const reshard::Shard& shard : shards) {
      const std::uint64_t bytes = shard.box.elements() * element;
      if (by_rank[shard.holders] == 0) remote[tensor].peer += bytes;
      if (by_domain[shard.holders] == 0) remote[tensor].network += bytes / in_domain;
    }
  }
  return remote;
}

/// Of the quantizer, for so many tensors.
std::uint64_t calls_for(std::uint64_t tensors, plan::Quantize how) {
  return tensors == 0 ? 0 : 1 + (tensors - 1) / run::tensors_per_call(how);
}

class Counter {
 public:
  Counter(const plan::Plan& plan, const plan::Wire& wire, const plan::Switches& switches,
          std::vector<Remote> remote)
      : plan_(plan), wire_(wire), switches_(switches), remote_(std::move(remote)) {}

  BucketLoad bucket(const plan::Bucket& what) {
    load_ = {};
    std::uint64_t quantized = 0;
    load_.keys = what.entries;
    load_.handles = switches_.handles == plan::Handles::per_bucket ? 1 : what.entries;
    for (std::uint32_t e = what.first_entry; e < what.first_entry + what.entries; ++e) {
      const plan::WireEntry& entry = wire_.entries[e];
      const plan::Segment& segment = plan_.segments[entry.segment];
      const bool quantize = segment.op == plan::Op::quantize;
      if (!entry.scale) gather(entry, segment);
      if (quantize && !wire_.prequantized) {
        quantized_by_receiver(entry);
      } else {
        ++load_.loaded_keys;
        load_.load_bytes += 2 * entry.bytes;
      }
      if (quantize && wire_.prequantized && !entry.scale) {
        ++quantized;
        load_.pack_bytes += 2 * entry.bytes;  // BF16 read
        if (switches_.quantize == plan::Quantize::per_tensor) {
          load_.pack_bytes += entry.bytes + entry.bytes / quant::kBlock;  // written, then packed
        }
      }
      const bool straight =
          quantize && wire_.prequantized && switches_.quantize != plan::Quantize::per_tensor;
      load_.pack_bytes += (straight ? 1 : 2) * entry.bytes;
      ++(straight ? load_.batched_keys : load_.packed_keys);
    }
    count_calls(quantized);
    return load_;
  }

 private:
  void gather(const plan::WireEntry& entry, const plan::Segment& segment) {
    ++load_.gathered;
    if (remote_.empty()) return;
    const plan::Source& source = plan_.sources[segment.source];
    const std::uint64_t rows = std::max<std::uint64_t>(source.spec.rows(), 1);
    load_.peer_bytes += remote_[segment.source].peer * entry.rows / rows;
    load_.network_bytes += remote_[segment.source].network * entry.rows / rows;
  }

  void quantized_by_receiver(const plan::WireEntry& entry) {
    ++load_.received_quantized;
    load_.load_bytes += entry.bytes + entry.bytes / 2 + entry.bytes / 2 / quant::kBlock;
  }

  void count_calls(std::uint64_t quantized) {
    if (switches_.quantize == plan::Quantize::per_bucket) {
      load_.list_calls = 1;  // copied tensors, too
      load_.packed_keys = load_.batched_keys = 0;
    } else {
      load_.quantize_calls = calls_for(quantized, switches_.quantize);
    }
    load_.pack_kernels = load_.packed_keys + load_.quantize_calls + load_.list_calls;
    count_load_calls();
  }

  void count_load_calls() {
    const bool cached = switches_.loader == plan::Loader::cached;
    const bool quantized_in_lists =
        load_.received_quantized > 0 && switches_.quantize != plan::Quantize::per_tensor;
    const bool one_list = wire_.prequantized || switches_.quantize == plan::Quantize::per_bucket;
    if (cached && one_list && switches_.handles == plan::Handles::per_bucket &&
        switches_.ipc_buffers == plan::IpcBuffers::persistent) {
      load_.load_calls = 1;  // everything of the bucket
      load_.receiver_lists = quantized_in_lists;
      load_.load_kernels = 1;
      return;
    }
    if (cached) load_.load_calls = load_.loaded_keys > 0 ? 1 : 0;
    load_.load_kernels = cached ? load_.load_calls : load_.loaded_keys;
    load_.receiver_lists = quantized_in_lists;
    const std::uint64_t quantizes = calls_for(load_.received_quantized, switches_.quantize);
    if (quantized_in_lists) load_.load_calls += quantizes;
    load_.load_kernels += quantizes;
  }

  const plan::Plan& plan_;
  const plan::Wire& wire_;
  const plan::Switches& switches_;
  const std::vector<Remote> remote_;
  BucketLoad load_;
};

RelayoutLoad relayout_load(const plan::Plan& plan, plan::Shuffle shuffle) {
  RelayoutLoad load;
  if (shuffle == plan::Shuffle::fused) return load;
  for (const plan::Destination& weight : plan.destinations) {
    if (weight.row_map == plan::kNone || weight.scale_of != plan::kNone) continue;
    const std::uint64_t scales =
        weight.scale == plan::kNone ? 0 : plan.destinations[weight.scale].spec.bytes();
    load.scale_bytes += 2 * scales;
    if (shuffle == plan::Shuffle::per_expert) {
      load.experts += weight.matrices;
      load.kernels += 3 * weight.matrices;  // gather, copy back, scales
      load.shuffle_bytes += 4 * weight.spec.bytes();
    } else {
      ++load.layers;
      load.kernels += 2;
      load.shuffle_bytes += 2 * weight.spec.bytes();
    }
  }
  return load;
}

}  // namespace

StagedLoad staged_load(const plan::Plan& plan, const plan::Switches& switches, const Gathering* gathering) {
  StagedLoad load;
  load.floor_bytes = plan.floor_bytes();
  load.cached = switches.loader == plan::Loader::cached;
  if (switches.pipeline == plan::Pipeline::direct) {
    load.direct = true;
    return load;
  }
  load.slots = switches.double_buffer ? 2 : 1;
  load.offset_map = switches.metadata == plan::Metadata::offset_map;
  load.with_function = switches.handle_encoding == plan::HandleEncoding::with_function;
  const plan::Wire wire = plan::make_wire(plan, switches.prequantize, switches.bucket_bytes());
  if (switches.ipc_buffers == plan::IpcBuffers::per_refit) {
    load.buffers_made = std::min<std::uint64_t>(load.slots, wire.buckets.size());
  }
  Counter counter(plan, wire, switches,
                  gathering == nullptr ? std::vector<Remote>{} : remote_bytes(plan, *gathering));
  for (const plan::Bucket& bucket : wire.buckets) load.buckets.push_back(counter.bucket(bucket));
  load.relayout = relayout_load(plan, switches.shuffle);
  return load;
}

}  // namespace refit::project
