// The one list of supported architectures.
#include "model/families.hpp"

#include <array>

namespace refit::model {

std::span<const Family> families() {
  static constexpr std::array list{
      Family{"LlamaForCausalLM", build_llama},
      Family{"MistralForCausalLM", build_llama},
      Family{"Qwen2ForCausalLM", build_qwen2},
      Family{"Qwen3ForCausalLM", build_qwen3},
      Family{"Qwen3MoeForCausalLM", build_qwen3_moe},
      Family{"Qwen3VLMoeForConditionalGeneration", build_qwen3_vl_moe, true},
      Family{"Qwen3_5MoeForConditionalGeneration", build_qwen35_moe, true},
      Family{"MixtralForCausalLM", build_mixtral},
      Family{"DeepseekV3ForCausalLM", build_deepseek_v3},
      Family{"Glm4MoeForCausalLM", build_glm4_moe},
      Family{"NemotronHForCausalLM", build_nemotron_h},
      Family{"GptOssForCausalLM", build_gpt_oss},
  };
  return list;
}

}  // namespace refit::model
