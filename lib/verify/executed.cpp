// Coverage from records: the rows that processes say they wrote fill every parameter exactly once.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "refit/layout/scale_128x4.hpp"
#include "refit/quant/mxfp8.hpp"
#include "verify/written.hpp"

#include "refit/verify/verify.hpp"

namespace refit::verify {
namespace {

/// Where rows of segments lie in one parameter.
class Region {
 public:
  Region(const plan::Plan& plan, std::uint32_t destination, bool canonical)
      : plan_(plan),
        self_(plan.destinations[destination]),
        weight_(self_.scale_of == plan::kNone ? self_ : plan.destinations[self_.scale_of]),
        canonical_(canonical),
        scale_cols_(weight_.spec.cols() / quant::kBlock) {}

  /// In canonical order scales have no padding yet.
  [[nodiscard]] std::uint64_t bytes() const {
    return canonical_ && is_scale() ? self_.matrices * self_.matrix_rows * scale_cols_ : self_.spec.bytes();
  }

  void mark(const Executed& rows, Written& written) const {
    const plan::Segment& segment = plan_.segments[rows.segment];
    if (!is_scale()) {
      const std::uint64_t row_bytes = segment.cols * size_of(self_.spec.dtype);
      mark_rows(segment, rows, segment.matrix * self_.matrix_bytes, row_bytes, written);
    } else if (canonical_) {
      // Padding comes with the tiles, after this order.
      if (segment.op == plan::Op::zero) return;
      mark_rows(segment, rows, segment.matrix * self_.matrix_rows * scale_cols_, scale_cols_, written);
    } else {
      mark_scales(segment, rows, written);
    }
  }

 private:
  [[nodiscard]] bool is_scale() const noexcept { return self_.scale_of != plan::kNone; }

  void mark_rows(const plan::Segment& segment, const Executed& rows, std::uint64_t matrix_at,
                 std::uint64_t row_bytes, Written& written) const {
    if (canonical_ || weight_.row_map == plan::kNone) {
      written.mark(matrix_at + (segment.row_begin + rows.row_begin) * row_bytes, rows.rows * row_bytes);
      return;
    }
    for (std::uint64_t r = rows.row_begin; r < rows.row_begin + rows.rows; ++r) {
      written.mark(matrix_at + plan::stored_row(plan_, segment, r) * row_bytes, row_bytes);
    }
  }

  /// A row of tiled scales owns its part of the padded columns too.
  void mark_scales(const plan::Segment& segment, const Executed& rows, Written& written) const {
    const bool tiled = self_.scale_layout == plan::ScaleLayout::tiled_128x4;
    const std::uint64_t cols = tiled ? layout::padded_scale_cols(scale_cols_) : scale_cols_;
    for (std::uint64_t r = rows.row_begin; r < rows.row_begin + rows.rows; ++r) {
      const std::uint64_t stored = plan::stored_row(plan_, segment, r);
      // Neighbours in a row are mostly neighbours in memory: mark them together.
      std::uint64_t begin = offset_of(segment, stored, 0), end = begin;
      for (std::uint64_t c = 0; c < cols; ++c, ++end) {
        const std::uint64_t at = offset_of(segment, stored, c);
        if (at == end) continue;
        written.mark(begin, end - begin);
        begin = end = at;
      }
      written.mark(begin, end - begin);
    }
  }

  [[nodiscard]] std::uint64_t offset_of(const plan::Segment& segment, std::uint64_t stored,
                                        std::uint64_t column) const {
    return segment.matrix * self_.matrix_bytes + plan::scale_offset(self_, stored, column);
  }

  const plan::Plan& plan_;
  const plan::Destination& self_;
  const plan::Destination& weight_;
  bool canonical_;
  std::uint64_t scale_cols_;
};

std::optional<Finding> fault_of(const std::string& tensor, const Written& written) {
  const Written::Found missing = written.missing();
  const Written::Found again = written.again();
  const Written::Found outside = written.outside();
  const auto finding = [&](std::uint64_t index, std::string got) {
    std::string what;
    const auto tell = [&what](const Written::Found& found, std::string_view how) {
      if (found.count == 0) return;
      what +=
          fmt::format("{}{} bytes {} (first at {})", what.empty() ? "" : ", ", found.count, how, found.first);
    };
    tell(missing, "never written");
    tell(again, "written more than once");
    tell(outside, "written behind the end");
    return Finding{.tensor = tensor,
                   .index = index,
                   .expected = "written once",
                   .got = std::move(got),
                   .count = missing.count + again.count + outside.count,
                   .what = std::move(what)};
  };
  if (missing.count != 0) return finding(missing.first, "never written");
  if (again.count != 0) return finding(again.first, "written again");
  if (outside.count != 0) return finding(outside.first, "written behind the end");
  return std::nullopt;
}

/// The records that concern each parameter; those that name no rows of the plan become findings.
struct Records {
  std::vector<std::vector<std::uint32_t>> of;
  Result unknown;
};
Records sort_records(const plan::Plan& plan, std::span<const Executed> executed) {
  Records records;
  records.of.resize(plan.destinations.size());
  for (std::uint32_t i = 0; i < executed.size(); ++i) {
    const Executed& rows = executed[i];
    const bool known = rows.segment < plan.segments.size();
    const std::uint64_t end = known ? plan.segments[rows.segment].rows : 0;
    if (!known || rows.row_begin > end || rows.rows > end - rows.row_begin) {
      records.unknown.add(
          {.tensor = known ? plan.segments[rows.segment].wire_name : fmt::format("segment {}", rows.segment),
           .index = 0,
           .expected = fmt::format("rows below {}", end),
           .got = fmt::format("{} rows from {} on", rows.rows, rows.row_begin),
           .count = 1,
           .what = "wrote rows that the plan does not have"});
      continue;
    }
    const std::uint32_t destination = plan.segments[rows.segment].destination;
    records.of[destination].push_back(i);
    const std::uint32_t scale = plan.destinations[destination].scale;
    if (scale != plan::kNone) records.of[scale].push_back(i);
  }
  return records;
}

}  // namespace

Result check_executed(const plan::Plan& plan, std::span<const Executed> executed, bool canonical,
                      ThreadPool& pool) {
  Records records = sort_records(plan, executed);
  std::vector<std::optional<Finding>> faults(plan.destinations.size());
  std::vector<std::uint64_t> bytes(plan.destinations.size());
  pool.for_range(plan.destinations.size(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const Region region(plan, static_cast<std::uint32_t>(i), canonical);
      bytes[i] = region.bytes();
      Written written(bytes[i]);
      for (const std::uint32_t record : records.of[i]) region.mark(executed[record], written);
      faults[i] = fault_of(plan.destinations[i].spec.name, written);
    }
  });

  Result result = std::move(records.unknown);
  for (std::size_t i = 0; i < faults.size(); ++i) {
    result.bytes += bytes[i];
    if (faults[i]) result.add(std::move(*faults[i]));
  }
  return result;
}

}  // namespace refit::verify
