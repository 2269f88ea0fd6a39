// Arithmetic on shapes, checked against overflow.
#include "refit/tensor/tensor.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "refit/base/error.hpp"

namespace refit {

std::uint64_t num_elements(const Shape& shape) {
  // A zero anywhere makes the product zero, however large the other dimensions are.
  if (std::find(shape.begin(), shape.end(), 0u) != shape.end()) return 0;
  constexpr std::uint64_t max_elements = 0x7FFF'FFFF'FFFF'FFFFull / 8;
  std::uint64_t product = 1;
  for (const std::uint64_t dimension : shape) {
    if (dimension > max_elements / product) {
      fail_input(fmt::format("shape {} has more than {} elements", to_string(shape), max_elements));
    }
    product *= dimension;
  }
  return product;
}

std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::uint64_t TensorSpec::rows() const {
  if (shape.size() < 2) return num_elements(shape);
  return num_elements(Shape(shape.begin(), shape.end() - 1));
}

}  // namespace refit
