// Software that a refit is projected with: what each thing costs the host. scenarios/stacks/NAME.json, schema
// refit-stack/1.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "refit/project/figure.hpp"

namespace refit::project {

inline constexpr std::string_view kStackSchema = "refit-stack/1";

/// Seconds of one host thread, each time that it happens.
enum class Cost : std::uint8_t {
  gather,             ///< a tensor is exported: its name found, its shards gathered
  pack,               ///< a key is copied into its bucket by a call of its own
  quantize,           ///< a call of the quantizer on the trainer
  receiver_quantize,  ///< a tensor is quantized by the generator
  load_lookup,        ///< a key is loaded, its route looked up
  load_cached,        ///< a key is loaded along a route that is known
  shuffle_expert,     ///< one expert's matrix and scales are brought into the engine's order
  shuffle_layer,      ///< all experts of one stacked parameter are
  call,               ///< one call that does a whole list of tensors
  bucket,             ///< a bucket: synchronize, message, acknowledgement
  allocate,           ///< a buffer is allocated and exported
  handle,             ///< a handle is sent, or is opened
  offset_map_key,     ///< dtype, shape and offset of a key are written and read (metadata=offset-map)
  handle_function,    ///< a handle travels with the function that opens it (handle_encoding=with-function)
  exchange,           ///< a round between ranks
  refit,              ///< once a refit
  prepare,            ///< prepare_for_generation besides the transfer and host traffic
};
inline constexpr std::size_t kCosts = 17;
[[nodiscard]] std::string_view name_of(Cost cost) noexcept;  ///< "load_lookup"

struct Stack {
  std::string name, title;
  std::array<Fitted, kCosts> costs;
  /// Every rank exports the whole model and hands it to the engine beside it (NeMo-RL). Else ranks exchange
  /// what each one needs.
  bool exports_whole_model = false;
  /// A tensor that the generator quantizes is loaded as two keys, values and scales.
  bool loads_quantized_keys = false;
  bool packs_batches = false;  ///< what a batch of the quantizer made is copied key by key, too
  Fitted message_share;        ///< of a link that collectives and messages reach
  Fitted offload_share;        ///< of the host link that offload reaches
  Fitted pageable_share;       ///< of the host link that copies from pageable memory reach
  /// |logarithm of projected over published| that eight of ten left-out figures stay below, by timer name.
  std::map<std::string, double> leave_out;

  [[nodiscard]] double seconds(Cost cost) const noexcept {
    return costs[static_cast<std::size_t>(cost)].figure.value;
  }
};

/// As load_platform, find_platform and platform_names, in stacks/.
[[nodiscard]] Stack load_stack(const std::filesystem::path& file);
[[nodiscard]] Stack find_stack(const std::string& name_or_file);
[[nodiscard]] std::vector<std::string> stack_names();

}  // namespace refit::project
