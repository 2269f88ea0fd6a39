// Names along an axis, of which as many are shown as fit.
#pragma once

#include <string>
#include <vector>

namespace refit::page {

/// A picture to stand below another: `names` at `places` (percent, ascending), `title` below them. `half`:
/// the picture is half as wide as the page where that is wide.
[[nodiscard]] std::string axis_names(const std::string& title, const std::vector<std::string>& names,
                                     const std::vector<double>& places, bool half);

}  // namespace refit::page
