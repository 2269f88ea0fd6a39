// FSDP and HSDP: each tensor's first dimension divided over the ranks of a replica.
#pragma once

#include "reshard/sharded_layout.hpp"

namespace refit::reshard {

/// Chunks as torch.chunk makes them (FSDP2, fully_shard): ceil(n / fsdp) for the first ranks, fewer or none
/// for the last ones.
class FsdpLayout : public ShardedLayout {
 public:
  FsdpLayout(const model::Inventory& model, Parallelism parallelism);
  void shards(std::uint32_t tensor, std::vector<Shard>& shards) const override;
};

}  // namespace refit::reshard
