// A plan's destinations cut into what one thread judges at once.
#include "verify/pieces.hpp"

#include <algorithm>
#include <tuple>

namespace refit::verify {

std::vector<FedMatrix> fed_matrices(const plan::Plan& plan) {
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < plan.segments.size(); ++i) {
    if (plan.segments[i].op != plan::Op::zero) order.push_back(i);
  }
  const auto place = [&](std::uint32_t i) {
    const plan::Segment& segment = plan.segments[i];
    return std::tuple(segment.destination, segment.matrix, segment.row_begin);
  };
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return place(a) < place(b); });

  std::vector<FedMatrix> fed;
  for (const std::uint32_t i : order) {
    const plan::Segment& segment = plan.segments[i];
    if (fed.empty() || fed.back().destination != segment.destination || fed.back().matrix != segment.matrix) {
      fed.push_back({.destination = segment.destination, .matrix = segment.matrix, .segments = {}});
    }
    fed.back().segments.push_back(i);
  }
  return fed;
}

std::vector<Piece> pieces_of(const plan::Plan& plan, const std::vector<FedMatrix>& fed) {
  std::vector<Piece> pieces;
  for (const FedMatrix& matrix : fed) {
    const plan::Destination& destination = plan.destinations[matrix.destination];
    const std::uint64_t rows = destination.matrix_rows;
    const std::uint64_t most =
        destination.row_map != plan::kNone
            ? rows
            : rows_of_a_piece(value_row_bytes(plan, plan.segments[matrix.segments.front()]));
    for (std::uint64_t begin = 0; begin < rows; begin += most) {
      pieces.push_back({&matrix, {begin, std::min(most, rows - begin)}});
    }
  }
  return pieces;
}

Part part_of(const plan::Segment& segment, const Piece& piece) noexcept {
  const std::uint64_t begin = std::max(segment.row_begin, piece.rows.begin);
  const std::uint64_t end = std::min(segment.row_begin + segment.rows, piece.rows.begin + piece.rows.count);
  if (begin >= end) return {};
  return {.rows = {begin - segment.row_begin, end - begin}, .at = begin - piece.rows.begin};
}

}  // namespace refit::verify
