// What a stream's terminal can show.
#pragma once

#include "refit/report/bars.hpp"

namespace refit::apps {

/// Of a file descriptor. No columns where it is no terminal. Unicode where the locale of the environment is
/// UTF-8; no colour with NO_COLOR (https://no-color.org) or on a terminal that says it is dumb.
[[nodiscard]] report::BarStyle bar_style(int fd);

}  // namespace refit::apps
