// How a refit is carried out: one switch for each thing that upstream changed, and for what we do instead.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "refit/quant/mxfp8.hpp"

namespace refit::plan {

enum class Pipeline : std::uint8_t {
  staged,  ///< pack into buckets, unpack, load, shuffle: what NeMo-RL does
  direct,  ///< one pass from the trainer's tensor into the generator's final parameter
};
enum class Quantize : std::uint8_t {
  per_tensor,  ///< a tensor a call, into a tensor of its own that is packed then
  batched,     ///< up to 16 experts a call, straight to where they go
  per_bucket,  ///< everything of a bucket in one call, copied tensors too
};
enum class Metadata : std::uint8_t { offset_map, key_list };
enum class HandleEncoding : std::uint8_t { with_function, arguments_only };
enum class Handles : std::uint8_t { per_tensor, per_bucket };
enum class IpcBuffers : std::uint8_t { per_refit, persistent };
enum class Loader : std::uint8_t { lookup, cached };
enum class Shuffle : std::uint8_t {
  per_expert,  ///< a pass of its own, a gather and a copy back for each expert
  batched,     ///< a pass of its own over all experts of a layer, in place
  fused,       ///< no pass: rows and scales go to their stored place while they are loaded
};
enum class Offload : std::uint8_t { full, slim };
enum class ReferenceSwap : std::uint8_t { pageable, pinned };
enum class RouterBias : std::uint8_t { fp32, bf16 };
enum class Commit : std::uint8_t { in_place, shadow };

/// Defaults are the control arm of the published scenarios: NeMo-RL's main before PR 3294.
struct Switches {
  Pipeline pipeline = Pipeline::staged;
  bool prequantize = false;                  ///< quantize on the trainer, before the transfer (PR 3294)
  Quantize quantize = Quantize::per_tensor;  ///< batched: PR 3804
  Metadata metadata = Metadata::key_list;    ///< what a bucket's message says of its tensors (PR 686)
  HandleEncoding handle_encoding = HandleEncoding::arguments_only;  ///< (PR 686)
  Handles handles = Handles::per_bucket;
  IpcBuffers ipc_buffers = IpcBuffers::per_refit;
  std::uint64_t buffer_size = 4ull << 30;  ///< bytes of both ping-pong halves together
  bool double_buffer = true;  ///< off: one buffer of the whole size, acknowledged before it is refilled
  Loader loader = Loader::lookup;
  Shuffle shuffle = Shuffle::per_expert;  ///< batched: PR 3478
  Offload offload = Offload::full;
  ReferenceSwap reference_swap = ReferenceSwap::pageable;
  RouterBias router_bias = RouterBias::fp32;  ///< bf16 reproduces the defect that PR 686 mended
  Commit commit = Commit::in_place;
  quant::Rounding rounding = quant::Rounding::flashinfer;
  quant::ZeroScale zero_scale = quant::ZeroScale::one;
  quant::NonFinite non_finite = quant::NonFinite::refuse;
  friend bool operator==(const Switches&, const Switches&) = default;

  /// The largest bucket: half of buffer_size when double-buffered.
  [[nodiscard]] std::uint64_t bucket_bytes() const noexcept {
    return double_buffer ? buffer_size / 2 : buffer_size;
  }
};

/// Everything that PR 3294 and PR 3478 turn on.
[[nodiscard]] Switches published_treatment();

/// Every switch as (name, value), in a fixed order: "pipeline" -> "staged", "prequantize" -> "off", ...
/// buffer_size is a plain number of bytes.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> to_pairs(const Switches& switches);

/// Sets one switch. Throws Error(input) that names the switch and lists what it takes (or the nearest name,
/// for an unknown switch).
void set_switch(Switches& switches, std::string_view name, std::string_view value);

/// "pipeline=direct,prequantize=on": sets each; empty text sets nothing.
void set_switches(Switches& switches, std::string_view text);

/// Throws Error(input) for combinations that cannot run, with the reason and the way out (pipeline=direct
/// with prequantize=off: direct quantizes at the sender).
void check_compatible(const Switches& switches);

/// Names of the switches that the chosen pipeline does not look at (direct: metadata, loader, shuffle, ...).
[[nodiscard]] std::vector<std::string> inapplicable(const Switches& switches);

}  // namespace refit::plan
