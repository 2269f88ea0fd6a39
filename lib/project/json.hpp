// The object that a projection is, for reports that hold one.
#pragma once

#include "base/json.hpp"
#include "refit/project/project.hpp"

namespace refit::project {

[[nodiscard]] OrderedJson projection_json(const Projection& projection, const scenario::Scenario& scenario);

}  // namespace refit::project
