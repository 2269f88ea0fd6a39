// Lists within a sentence, which files may make as long as they like.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace refit::gate {

/// The first of many, and how many more there are.
[[nodiscard]] std::string listed(const std::vector<std::string>& names);
/// Of a value of several lines those that the other value lacks; "-" for none.
[[nodiscard]] std::string own_lines(std::string_view value, std::string_view other);

}  // namespace refit::gate
