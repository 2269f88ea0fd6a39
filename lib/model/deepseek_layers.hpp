// What DeepSeek-V3 and the families built after it share: dense layers first, then experts beside shared
// experts, and multi-token-prediction layers after the last one.
#pragma once

#include <functional>

#include "model/builder.hpp"

namespace refit::model {

struct DeepseekMlp {
  std::uint64_t first_dense = 0;   ///< layers before this one are dense
  std::uint64_t frequency = 1;     ///< of the others, every n-th has experts
  std::uint64_t shared_width = 0;  ///< 0 without shared experts
  bool correction_bias = true;

  [[nodiscard]] bool dense(std::uint64_t layer) const {
    return layer < first_dense || layer % frequency != 0;
  }
};

/// Needs dims.layers and the experts; sets dims.intermediate and dims.shared_experts.
[[nodiscard]] DeepseekMlp read_deepseek_mlp(const Config& config, Builder& out);

void add_deepseek_mlp(Builder& out, const DeepseekMlp& mlp, std::uint64_t layer);

/// The whole model around its layers: embedding, layers, final norm, head, and num_nextn_predict_layers
/// multi-token-prediction layers with the indices after the last one. These repeat embedding and head;
/// GLM-4.6 leaves the two out under the same configuration.
void add_deepseek_model(const Config& config, Builder& out,
                        const std::function<void(std::uint64_t index)>& add_layer);

}  // namespace refit::model
