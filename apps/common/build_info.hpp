// What was built, from which commit: looked up by the build, on every build.
#pragma once

#include "refit/report/environment.hpp"

namespace refit::apps {

[[nodiscard]] report::BuildInfo build_info();

}  // namespace refit::apps
