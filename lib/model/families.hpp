// The supported architectures. A new family is one file, one declaration here and one row in families.cpp.
#pragma once

#include <span>
#include <string_view>

#include "model/builder.hpp"
#include "model/config.hpp"

namespace refit::model {

/// Builders read the language model's part of the configuration; dims.hidden, vocab and tied_embeddings are
/// set.
void build_llama(const Config& config, Builder& out);
void build_qwen2(const Config& config, Builder& out);
void build_qwen3(const Config& config, Builder& out);
void build_qwen3_moe(const Config& config, Builder& out);
void build_qwen3_vl_moe(const Config& config, Builder& out);
void build_qwen35_moe(const Config& config, Builder& out);
void build_mixtral(const Config& config, Builder& out);
void build_deepseek_v3(const Config& config, Builder& out);
void build_glm4_moe(const Config& config, Builder& out);
void build_nemotron_h(const Config& config, Builder& out);
void build_gpt_oss(const Config& config, Builder& out);

struct Family {
  std::string_view architecture;
  void (*build)(const Config& config, Builder& out);
  bool nested = false;  ///< sizes of the language model have to be under text_config
};

[[nodiscard]] std::span<const Family> families();

}  // namespace refit::model
