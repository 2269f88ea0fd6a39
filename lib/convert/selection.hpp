// What the conversion does to each tensor.
#pragma once

#include <optional>
#include <vector>

#include "convert/source.hpp"

namespace refit::convert {

struct Selection {
  std::vector<Op> ops;  ///< one for each of source.tensors
  std::optional<model::RecipeKind> recipe;
};

/// Throws Error(input) naming tensor and numbers for a tensor that is to be quantized and cannot be.
[[nodiscard]] Selection select(const Source& source, const Options& options);

}  // namespace refit::convert
