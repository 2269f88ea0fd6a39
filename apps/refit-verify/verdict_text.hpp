// A verdict in words.
#pragma once

#include <string>

#include "refit/verify/verify.hpp"

namespace refit::apps {

/// One line a check: bytes compared, mismatches; then a line for each finding, at most `most` of them a
/// check.
[[nodiscard]] std::string describe(const verify::Verdict& verdict, std::size_t most);

/// "layout: model...w13_weight[12] is 0x3a, expected 0x7e (512 bytes): differs from ...".
[[nodiscard]] std::string describe(verify::Check check, const verify::Finding& finding);

}  // namespace refit::apps
