// Work on a bucket that is the same in every refit: prepared once, while memory stays where it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
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
    const Replay& replay = of_[bucket];
    return replay.program != nullptr && replay.places == places ? &replay : nullptr;
  }
  const Replay& keep(std::size_t bucket, Replay replay) { return of_[bucket] = std::move(replay); }

 private:
  std::vector<Replay> of_;
};

}  // namespace refit::run
