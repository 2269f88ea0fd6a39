// Which pipeline stage holds a layer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "refit/model/inventory.hpp"
#include "refit/reshard/parallelism.hpp"

namespace refit::reshard {

/// Where the layers go that do not divide by the number of stages.
enum class Remainder : std::uint8_t {
  first_stages,     ///< one each, from the first stage on
  before_the_last,  ///< one each, from the last stage but one backwards: it has the head to do (vLLM,
                    ///< distributed/utils.py, get_pp_indices)
};

class Stages {
 public:
  /// Fills `parallelism.pp_layers` where it is empty. Throws Error(input) that begins with `what` for more
  /// stages than layers, and for pp_layers that do not add up to the model's layers.
  Stages(const model::Inventory& model, Parallelism& parallelism, Remainder remainder,
         const std::string& what);

  /// Of a layer by its index in the checkpoint's names.
  [[nodiscard]] std::uint32_t stage_of(int layer) const { return at(layer).stage; }
  /// The layer's index among those of its stage.
  [[nodiscard]] std::uint32_t local_index(int layer) const { return at(layer).index; }
  /// "61 layers over pp=8: 8, 8, ..., 7" where stages differ, else empty.
  [[nodiscard]] const std::string& note() const noexcept { return note_; }

 private:
  struct Place {
    std::uint32_t stage = 0, index = 0;
  };
  [[nodiscard]] const Place& at(int layer) const { return places_[static_cast<std::size_t>(layer)]; }

  std::vector<Place> places_;  // by the index in names; a slice of a model has holes
  std::string note_;
};

}  // namespace refit::reshard
