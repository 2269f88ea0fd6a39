// What the names of tensors say, where no config.json does.
#pragma once

#include <string_view>

namespace refit::checkpoint {

/// Whether a tensor is what a router adds to its scores, by Hugging Face's or Megatron's name. It is FP32 in
/// every engine: BF16 would change which experts are chosen.
[[nodiscard]] inline bool is_router_bias(std::string_view name) noexcept {
  return name.ends_with("e_score_correction_bias") || name.ends_with("expert_bias");
}

}  // namespace refit::checkpoint
