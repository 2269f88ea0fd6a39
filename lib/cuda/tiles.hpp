// Items of unlike size, cut into tiles of like size: what every kernel of a list works on.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/launch.hpp"

namespace refit::cuda {

/// Items and their tiles. Items without a unit have no tile.
template <typename Item>
struct Work {
  std::vector<Item> items;
  std::vector<kernels::Tile> tiles;

  [[nodiscard]] std::uint32_t tile_count() const noexcept { return static_cast<std::uint32_t>(tiles.size()); }
};

/// Cuts items into tiles of `per_tile` units; `units_of` says how many units an item has.
template <typename Item, typename UnitsOf>
[[nodiscard]] Work<Item> cut_into_tiles(std::vector<Item> items, std::uint64_t per_tile,
                                        const UnitsOf& units_of) {
  const auto tiles_of = [&](const Item& item) { return (units_of(item) + per_tile - 1) / per_tile; };
  Work<Item> work{.items = std::move(items), .tiles = {}};
  std::uint64_t count = 0;
  for (const Item& item : work.items) count += tiles_of(item);
  work.tiles.reserve(count);
  for (std::uint32_t i = 0; i < work.items.size(); ++i) {
    const auto tiles = static_cast<std::uint32_t>(tiles_of(work.items[i]));
    for (std::uint32_t t = 0; t < tiles; ++t) work.tiles.push_back({i, t});
  }
  return work;
}

}  // namespace refit::cuda
