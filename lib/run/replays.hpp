// Work on a bucket that is the same in every refit: prepared once, while memory stays where it is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "refit/device/backend.hpp"

namespace refit::run {

class Replays {
 public:
  /// Where a bucket's work reads and writes.
  struct Places {
    const std::byte* from = nullptr;
    const std::byte* to = nullptr;
    friend bool operator==(const Places&, const Places&) = default;
  };
  struct Replay {
    std::unique_ptr<device::Program> program;
    std::uint64_t bytes = 0;  ///< that it moves
    Places places;
  };

  explicit Replays(std::size_t buckets) : of_(buckets) {}
  /// The bucket's prepared work, or null when there is none for these places.
  [[nodiscard]] const Replay* find(std::size_t bucket, const Places& places) const {
    for (const Replay& replay : of_[bucket]) {
      if (replay.program != nullptr && replay.places == places) return &replay;
    }
    return nullptr;
  }
  const Replay& keep(std::size_t bucket, Replay replay) {
    std::array<Replay, kSets>& kept = of_[bucket];
    std::swap(kept.front(), kept.back());
    return kept.front() = std::move(replay);
  }

 private:
  static constexpr std::size_t kSets = 2;  ///< commit=shadow writes two parameter sets in turn
  std::vector<std::array<Replay, kSets>> of_;
};

}  // namespace refit::run
