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

struct Head {
  std::string name, title;
};
/// "schema", "name", which is the file's, and "title" of a file. Error(input) for another schema or name.
[[nodiscard]] Head read_head(const JsonNode& node, std::string_view schema,
                             const std::filesystem::path& file);

/// {"value": 1.5, "basis": "measured", "source": "..."}; the value, above 0, times `unit`.
[[nodiscard]] Figure read_figure(const JsonNode& node, double unit);
/// With "prior" and "spread", or neither.
[[nodiscard]] Fitted read_fitted(const JsonNode& node, bool may_be_zero);

}  // namespace refit::project
