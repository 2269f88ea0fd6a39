// Names of tensors against what people type.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace refit::convert {

/// A pattern with `*` (any characters) or `?` (one) is the whole name; any other is a part of it.
[[nodiscard]] bool matches(std::string_view name, std::string_view pattern) noexcept;
[[nodiscard]] bool matches_any(std::string_view name, const std::vector<std::string>& patterns) noexcept;
/// Throws Error(input) that names `option` for an empty pattern, which would be a part of every name.
void check_patterns(const std::vector<std::string>& patterns, std::string_view option);

}  // namespace refit::convert
