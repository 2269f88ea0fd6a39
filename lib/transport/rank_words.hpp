// How every implementation of ranks speaks of another rank.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace refit::transport {

[[nodiscard]] inline std::string rank_is_gone(std::uint32_t rank, std::string_view doing) {
  return fmt::format("rank {} is gone; the last it did: {}", rank, doing);
}

[[nodiscard]] inline std::string rank_that_does(std::uint32_t rank, std::string_view doing) {
  return fmt::format("rank {} ({})", rank, doing);
}

}  // namespace refit::transport
