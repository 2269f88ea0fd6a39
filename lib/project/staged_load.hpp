// What a refit between a trainer and the generator beside it does, counted bucket by bucket from its plan.
#pragma once

#include <cstdint>
#include <vector>

#include "refit/plan/wire.hpp"
#include "refit/reshard/layout.hpp"

namespace refit::project {

struct BucketLoad {
  std::uint64_t gathered = 0;                       ///< tensors exported for it
  std::uint64_t peer_bytes = 0, network_bytes = 0;  ///< that come from other ranks of the trainer
  std::uint64_t packed_keys = 0, quantize_calls = 0, list_calls = 0;
  std::uint64_t batched_keys = 0;                  ///< that a batch of the quantizer can write where they go
  std::uint64_t pack_kernels = 0, pack_bytes = 0;  ///< of the GPU; read and written
  std::uint64_t keys = 0, handles = 0;
  std::uint64_t loaded_keys = 0, load_calls = 0;
  std::uint64_t received_quantized = 0;  ///< tensors that the generator quantizes
  bool receiver_lists = false;           ///< in load_calls, else each by a call of its own
  std::uint64_t load_kernels = 0, load_bytes = 0;
};

/// After the last bucket.
struct RelayoutLoad {
  std::uint64_t experts = 0, layers = 0;  ///< of experts' matrices or of stacked parameters, by the switch
  std::uint64_t kernels = 0;
  std::uint64_t shuffle_bytes = 0, scale_bytes = 0;  ///< read and written
};

struct StagedLoad {
  std::vector<BucketLoad> buckets;
  RelayoutLoad relayout;
  unsigned slots = 2;              ///< buffers in turn
  std::uint64_t buffers_made = 0;  ///< in each refit
  bool offset_map = false, with_function = false, cached = false;
  bool direct = false;            ///< no buckets: one list of calls
  std::uint64_t floor_bytes = 0;  ///< read and written; all of a direct refit
};

/// The trainer's ranks, when a tensor has to be gathered from them before it is exported. Of one of them.
struct Gathering {
  const reshard::Layout& trainer;
  std::uint32_t rank = 0;
  std::uint32_t ranks_per_domain = 1;  ///< that reach each other without the network
};

/// Counts as lib/run does it. Error(input): what plan::make_wire refuses.
[[nodiscard]] StagedLoad staged_load(const plan::Plan& plan, const plan::Switches& switches,
                                     const Gathering* gathering);

}  // namespace refit::project
