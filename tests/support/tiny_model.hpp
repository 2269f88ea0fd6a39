// A model with everything that refits have to get right, in small, and its plan.
#pragma once

#include <vector>

#include "refit/device/task.hpp"
#include "refit/model/inventory.hpp"
#include "refit/plan/plan.hpp"

namespace refit::test {

/// GLM-4.5-MoE in small: a dense layer, a shared expert, FP32 router bias, fused qkv with biases, scale
/// columns that do not divide by 4 (192 / 32 = 6).
inline constexpr const char* kTinyConfig = R"({
  "architectures": ["Glm4MoeForCausalLM"], "model_type": "glm4_moe", "hidden_size": 256, "num_hidden_layers": 3,
  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "intermediate_size": 512,
  "moe_intermediate_size": 192, "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1,
  "first_k_dense_replace": 1, "attention_bias": true, "use_qk_norm": true, "vocab_size": 1024,
  "num_nextn_predict_layers": 1, "tie_word_embeddings": false, "torch_dtype": "bfloat16"})";

inline plan::Plan tiny_plan(quant::Rounding rounding, quant::ZeroScale zero_scale,
                            quant::NonFinite non_finite = quant::NonFinite::refuse) {
  plan::Request request;
  request.model = model::parse_inventory(kTinyConfig, "test config");
  request.recipe.kind = model::default_recipe(request.model);
  request.quant = {rounding, zero_scale, non_finite};
  return plan::build(request);
}

/// The tasks of a plan's segments, in order.
inline std::vector<device::Task> all_tasks(const plan::Plan& plan, const std::byte* sources,
                                           std::byte* destinations) {
  std::vector<device::Task> tasks;
  for (std::uint32_t s = 0; s < plan.segments.size(); ++s) {
    tasks.push_back(device::task_of(plan, s, 0, plan.segments[s].rows, sources, destinations));
  }
  return tasks;
}

}  // namespace refit::test
