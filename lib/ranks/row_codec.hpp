// A rank's row on its way to rank 0.
#pragma once

#include <string>
#include <string_view>

#include "refit/ranks/ranks.hpp"

namespace refit::ranks {

[[nodiscard]] std::string encode_row(const RankRow& row);
/// Error(input) for bytes that encode_row did not make.
[[nodiscard]] RankRow decode_row(std::string_view bytes);

}  // namespace refit::ranks
