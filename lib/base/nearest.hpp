// The known word that was probably meant.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace refit {

/// The word with the smallest edit distance to `text`, if that is at most half of the longer of the two.
[[nodiscard]] std::optional<std::string_view> nearest(std::string_view text,
                                                      std::span<const std::string_view> words);

}  // namespace refit
