// What a timeline kept, as another process reads it.
#pragma once

#include "base/json.hpp"
#include "refit/time/timeline.hpp"

namespace refit::run {

[[nodiscard]] Json encode_recording(const Recording& recording);
/// Json::exception, or Error(runtime) for a span of no stage.
[[nodiscard]] Recording recording_of(const Json& in);

}  // namespace refit::run
