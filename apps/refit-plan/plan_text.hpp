// A plan of many ranks for people.
#pragma once

#include <string>

#include "refit/reshard/report.hpp"

namespace refit::apps {

[[nodiscard]] std::string plan_text(const reshard::Report& report);

}  // namespace refit::apps
