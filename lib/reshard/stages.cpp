// Layers to pipeline stages, in order; a slice of a model is divided by the layers that it has.
#include "reshard/stages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "refit/base/error.hpp"

namespace refit::reshard {
namespace {

std::vector<std::uint32_t> divide(std::uint64_t layers, std::uint32_t stages, Remainder remainder) {
  std::vector<std::uint32_t> sizes(stages, static_cast<std::uint32_t>(layers / stages));
  const std::uint64_t extra = layers % stages;
  for (std::uint64_t i = 0; i < extra; ++i) {
    ++sizes[remainder == Remainder::first_stages ? i : stages - 2 - i];
  }
  return sizes;
}

}  // namespace

Stages::Stages(const model::Inventory& model, Parallelism& parallelism, Remainder remainder,
               const std::string& what) {
  std::set<int> layers;
  for (const model::Tensor& tensor : model.tensors) {
    if (tensor.layer >= 0) layers.insert(tensor.layer);
  }
  std::vector<std::uint32_t>& sizes = parallelism.pp_layers;
  if (parallelism.pp > 1 && layers.size() < parallelism.pp) {
    fail_input(fmt::format("{}: pp={} stages are more than the model's {} layers", what, parallelism.pp,
                           layers.size()));
  }
  if (sizes.empty()) sizes = divide(layers.size(), parallelism.pp, remainder);
  const auto sum = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
  if (sum != layers.size()) {
    fail_input(fmt::format("{}: pp-layers={} are {} layers, but the model has {}", what,
                           fmt::join(sizes, ":"), sum, layers.size()));
  }
  if (std::adjacent_find(sizes.begin(), sizes.end(), std::not_equal_to<>()) != sizes.end()) {
    note_ = fmt::format("{} layers over pp={} stages: {}", sum, parallelism.pp, fmt::join(sizes, ", "));
  }

  if (!layers.empty()) places_.resize(static_cast<std::size_t>(*layers.rbegin()) + 1);
  Place place;
  for (const int layer : layers) {
    while (place.index == sizes[place.stage]) place = {.stage = place.stage + 1, .index = 0};
    places_[static_cast<std::size_t>(layer)] = place;
    ++place.index;
  }
}

}  // namespace refit::reshard
