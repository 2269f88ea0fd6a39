// Files of a kind beside the scenarios: found by name, read strictly.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_node.hpp"
#include "refit/project/figure.hpp"

namespace refit::project {

/// "NAME.json" in `folder` of the first of scenario::directories() that has it; a text with a '/' or that
/// ends in ".json" is a path. Error(input) naming `what` with the nearest name.
[[nodiscard]] std::filesystem::path find_file(const std::string& name_or_file, std::string_view folder,
                                              std::string_view what);
/// Names in `folder` of all directories, sorted.
[[nodiscard]] std::vector<std::string> names_in(std::string_view folder);

/// {"value": 1.5, "basis": "measured", "source": "..."}; the value times `unit`. Error(input) for a value
/// that is not positive, unless `may_be_zero`.
[[nodiscard]] Figure read_figure(const JsonNode& node, double unit, bool may_be_zero = false);
/// With "prior" and "spread", or neither.
[[nodiscard]] Fitted read_fitted(const JsonNode& node, bool may_be_zero);

}  // namespace refit::project
