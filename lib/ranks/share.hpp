// What one rank holds: where each box of the model's tensors lies in its arenas.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "refit/device/weights.hpp"
#include "refit/plan/plan.hpp"
#include "refit/reshard/layout.hpp"
#include "refit/verify/verify.hpp"

namespace refit::ranks {

/// The boxes of a rank by tensor of the model.
class PlacedIndex {
 public:
  PlacedIndex(const reshard::Local& local, std::size_t tensors);
  [[nodiscard]] std::span<const reshard::Placed> of(std::uint32_t tensor) const {
    return placed_.subspan(first_[tensor], first_[tensor + 1] - first_[tensor]);
  }

 private:
  std::span<const reshard::Placed> placed_;
  std::vector<std::size_t> first_;
};

/// A trainer rank's tensors in one arena.
struct TrainerShare {
  TrainerShare(const model::Inventory& model, const reshard::Layout& layout, std::uint32_t rank);
  TrainerShare(const TrainerShare&) = delete;
  TrainerShare& operator=(const TrainerShare&) = delete;

  const model::Inventory& model;
  reshard::Local local;
  PlacedIndex placed;
  std::vector<verify::Extent> extents;  ///< of local.tensors
  std::uint64_t arena_bytes = 0;

  /// Every box, for the backend to fill.
  [[nodiscard]] std::vector<device::WeightBox> weights(std::span<std::byte> arena) const;
};

/// A generator rank's parameters: the plan of its own engine, whose sources are the boxes that it wants.
struct GeneratorShare {
  GeneratorShare(const model::Inventory& model, const reshard::Layout& layout, std::uint32_t rank,
                 const plan::Request& request);
  GeneratorShare(const GeneratorShare&) = delete;
  GeneratorShare& operator=(const GeneratorShare&) = delete;

  const model::Inventory& model;
  reshard::Local local;
  PlacedIndex placed;
  plan::Plan plan;
  std::vector<std::vector<std::uint32_t>> segments;  ///< of the plan, by source, by source row

  /// The boxes as sources of the plan: what the parameters are verified against.
  [[nodiscard]] std::vector<device::WeightBox> reference(std::span<std::byte> sources) const;
};

}  // namespace refit::ranks
