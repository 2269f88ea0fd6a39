// Boxes of tensors that begin and end anywhere, kept in rows of any width.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "refit/device/weights.hpp"

namespace refit::test {

struct BoxCase {
  TensorSpec tensor;
  std::uint64_t row = 0, rows = 0, col = 0, cols = 0;
  std::uint64_t pitch = 0, offset = 0;  ///< bytes, in the memory that holds the box

  [[nodiscard]] std::uint64_t bytes() const { return offset + rows * pitch + 16; }
  /// `memory` begins at a multiple of 16.
  [[nodiscard]] device::WeightBox in(std::byte* memory) const {
    return {&tensor, row, rows, col, cols, memory + offset, pitch};
  }
};

inline std::vector<BoxCase> weight_box_cases() {
  std::mt19937_64 random(17);
  std::vector<BoxCase> cases;
  for (const DType dtype : {DType::bf16, DType::f32, DType::i64, DType::u8}) {
    for (const std::uint64_t width : {1, 3, 32, 40, 96, 1000}) {
      for (int i = 0; i < 12; ++i) {
        BoxCase box;
        box.tensor = {.name = "a.weight", .shape = {1 + random() % 300, width}, .dtype = dtype};
        const std::uint64_t size = size_of(dtype), height = box.tensor.rows();
        box.row = random() % height;
        box.rows = 1 + random() % (height - box.row);
        const std::uint64_t unit = i % 2 == 0 && width % 8 == 0 ? 8 : 1;  // words that begin together, or not
        box.col = i < 4 ? 0 : random() % (width / unit) * unit;
        box.cols = i < 4 ? width : (1 + random() % ((width - box.col) / unit)) * unit;
        box.pitch = box.cols * size + (i % 3 == 0 ? 0 : random() % 5 * 16 * size);
        box.offset = i % 2 == 0 ? 0 : random() % 7 * size;
        cases.push_back(box);
      }
    }
  }
  return cases;
}

}  // namespace refit::test
