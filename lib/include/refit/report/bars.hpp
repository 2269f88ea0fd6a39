// The arms of a bench as bars, for a terminal.
#pragma once

#include <cstddef>
#include <string>

#include "refit/report/report.hpp"

namespace refit::report {

struct BarStyle {
  std::size_t columns = 0;  ///< of the terminal; no bars on fewer than kLeastBarColumns
  bool unicode = false;     ///< eighths of a block; else '#'
  bool colour = false;
};
inline constexpr std::size_t kLeastBarColumns = 60;

/// A bar an arm for each phase that moves weights, as long as its median, with the change beside it. Empty
/// without results or room. At most 100 columns.
[[nodiscard]] std::string to_bars(const Report& report, const BarStyle& style);

}  // namespace refit::report
