// The bytes that rows of a segment have to become: the source's own, or the scalar quantizer's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "refit/plan/plan.hpp"
#include "refit/plan/wire.hpp"
#include "verify/tally.hpp"

namespace refit::verify {

/// Consecutive rows.
struct Rows {
  std::uint64_t begin = 0, count = 0;
};

/// Bytes of one row of a segment: of its values as the destination holds them, and of its row-major scales.
[[nodiscard]] std::uint64_t value_row_bytes(const plan::Plan& plan, const plan::Segment& segment);
[[nodiscard]] std::uint64_t scale_row_bytes(const plan::Segment& segment);

/// Rows of the segment as the trainer holds them.
[[nodiscard]] Bytes source_rows(const plan::Plan& plan, const plan::Segment& segment, Rows rows,
                                Bytes sources);

/// Values and row-major scales of a quantize segment's rows, by quantize_block_reference alone.
void quantize_rows(const plan::Plan& plan, const plan::Segment& segment, Rows rows, Bytes sources,
                   std::span<std::byte> values, std::span<std::byte> scales);

/// Rows that make about a megabyte: a multiple of 128, so that pieces begin where words of a digest and tiles
/// of scales do.
[[nodiscard]] std::uint64_t rows_of_a_piece(std::uint64_t row_bytes) noexcept;

/// The same rows of a segment as they travel: in one entry, or in an entry of values and one of scales.
struct Travel {
  std::uint32_t segment = plan::kNone;
  Rows rows;                                                 ///< of the segment
  std::uint32_t values = plan::kNone, scales = plan::kNone;  ///< entries; kNone: not among those asked for
};
/// Whether its rows travel as values and scales.
[[nodiscard]] bool travels_quantized(const plan::Segment& segment, const plan::Wire& wire) noexcept;
/// Every entry of [first_entry, first_entry + entries) in exactly one travel.
[[nodiscard]] std::vector<Travel> travels_of(const plan::Wire& wire, std::uint32_t first_entry,
                                             std::uint32_t entries);

/// Calls visit(values, scales) with what the entries of `travel` have to carry for `rows` of the segment.
/// Valid during the call alone; `scales` is empty where none travel.
void visit_travel(const plan::Plan& plan, const plan::Wire& wire, const Travel& travel, Rows rows,
                  Bytes sources, const std::function<void(Bytes values, Bytes scales)>& visit);

/// What a difference from these bytes says.
[[nodiscard]] std::string_view difference_of(const plan::Segment& segment, bool quantized) noexcept;
/// What a difference from the reference layout of quantized rows says.
inline constexpr std::string_view kOtherLayout = "differs from the per-expert reference layout";
inline constexpr std::string_view kPaddingNotZero = "scale padding is not zero";

/// `size` bytes of a destination from byte `at` of it on; Error(input) when the plan gives it fewer.
[[nodiscard]] Bytes destination_bytes(const plan::Plan& plan, std::uint32_t destination, std::uint64_t at,
                                      std::uint64_t size, Bytes destinations);

/// Throw Error(input) unless an arena, or a packed bucket, holds what the plan says.
void require_sources(const plan::Plan& plan, Bytes sources);
void require_destinations(const plan::Plan& plan, Bytes destinations);
void require_packed(const plan::Wire& wire, std::size_t bucket, Bytes packed);
/// Throws Error(input) unless there is one mark for each segment, or none.
void require_marks(const plan::Plan& plan, const std::vector<bool>& masked);

}  // namespace refit::verify
