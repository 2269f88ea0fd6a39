// What came out of a replay.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "project/engine.hpp"

namespace refit::project {

/// What time is spent on: the labels of activities.
enum class Part : std::uint8_t {
  begin,
  pack_host,
  pack_device,
  gather_peers,
  gather_network,
  message,
  load_host,
  load_device,
  relayout_host,
  relayout_device,
  exchange_peers,
  exchange_network,
  exchange_host
};
inline constexpr std::size_t kParts = 13;
[[nodiscard]] std::string_view name_of(Part part) noexcept;

struct Replayed {
  double seconds = 0;
  std::array<double, kParts> critical{};  ///< seconds of the critical path by part; their sum is `seconds`
  std::optional<std::uint32_t> slowest_rank{};
};

/// Of an engine that has run: the time until `last` ended, and its critical path.
[[nodiscard]] Replayed replayed(const Engine& engine, Engine::Activity last);

}  // namespace refit::project
