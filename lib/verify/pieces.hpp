// A plan's destinations cut into what one thread judges at once.
#pragma once

#include <cstdint>
#include <vector>

#include "verify/reference.hpp"

namespace refit::verify {

/// One matrix of a destination and the segments that feed it, by row.
struct FedMatrix {
  std::uint32_t destination = plan::kNone;
  std::uint64_t matrix = 0;
  std::vector<std::uint32_t> segments;
};
[[nodiscard]] std::vector<FedMatrix> fed_matrices(const plan::Plan& plan);

/// Rows of a matrix whose stored form stands alone: all of them where rows are shuffled, else a band of about
/// a megabyte that begins with a tile of scales.
struct Piece {
  const FedMatrix* fed = nullptr;
  Rows rows;
};
[[nodiscard]] std::vector<Piece> pieces_of(const plan::Plan& plan, const std::vector<FedMatrix>& fed);

/// The part of a segment inside a piece: rows of the segment, and the row of the piece where they begin.
struct Part {
  Rows rows;
  std::uint64_t at = 0;
};
[[nodiscard]] Part part_of(const plan::Segment& segment, const Piece& piece) noexcept;

}  // namespace refit::verify
