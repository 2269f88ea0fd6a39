// Shapes and named tensors without storage.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "refit/tensor/dtype.hpp"

namespace refit {

/// Dimensions, outermost first, row-major. Empty means a scalar of one element; a dimension may be 0.
using Shape = std::vector<std::uint64_t>;

/// The product of the dimensions. Throws Error(input) when it, or 8 times it, does not fit in 63 bits.
[[nodiscard]] std::uint64_t num_elements(const Shape& shape);

/// "[4096, 2048]".
[[nodiscard]] std::string to_string(const Shape& shape);

/// A tensor as metadata: what a safetensors header or a refit manifest says of it.
struct TensorSpec {
  std::string name;
  Shape shape;
  DType dtype = DType::bf16;

  [[nodiscard]] std::uint64_t bytes() const { return num_elements(shape) * size_of(dtype); }
  /// The tensor seen as a matrix: all dimensions but the last make the rows. A vector is a column, [n] = n x
  /// 1 (so that vectors join and split by rows like matrices do), and a scalar is 1 x 1.
  [[nodiscard]] std::uint64_t rows() const;
  [[nodiscard]] std::uint64_t cols() const { return shape.size() < 2 ? 1 : shape.back(); }

  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

}  // namespace refit
