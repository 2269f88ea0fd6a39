// The module of a tensor's name: what tells a projection from another where kinds do not.
#pragma once

#include <string_view>

namespace refit::model {

/// Of "model.layers.0.self_attn.q_b_proj.weight": "q_b_proj". Empty for a name without a dot.
[[nodiscard]] constexpr std::string_view module_of(std::string_view name) noexcept {
  const std::size_t suffix = name.rfind('.');
  if (suffix == std::string_view::npos || suffix == 0) return {};
  const std::size_t dot = name.rfind('.', suffix - 1);
  const std::size_t begin = dot == std::string_view::npos ? 0 : dot + 1;
  return name.substr(begin, suffix - begin);
}

}  // namespace refit::model
