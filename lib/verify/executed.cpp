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

/// Where rows of segments lie in one parameter. Rows are moved whole, so one flag stands for all bytes of a
/// row: flags are in the order of the rows' first bytes.
class Region {
 public:
  Region(const plan::Plan& plan, std::uint32_t destination, bool canonical)
      : plan_(plan),
        self_(plan.destinations[destination]),
        weight_(self_.scale_of == plan::kNone ? self_ : plan.destinations[self_.scale_of]),
        canonical_(canonical),
        tiled_(is_scale() && !canonical && self_.scale_layout == plan::ScaleLayout::tiled_128x4) {
    const std::uint64_t scale_cols = weight_.spec.cols() / quant::kBlock;
    if (tiled_) {
      // A row of tiled scales owns its part of the padded columns too.
      row_bytes_ = layout::padded_scale_cols(scale_cols);
    } else {
      row_bytes_ = is_scale()               ? scale_cols
                   : self_.matrix_rows == 0 ? 0
                                            : self_.matrix_bytes / self_.matrix_rows;
    }
    matrix_rows_ = tiled_ ? layout::padded_scale_rows(self_.matrix_rows) : self_.matrix_rows;
  }

  /// In canonical order scales have no padding yet.
  [[nodiscard]] std::uint64_t rows() const { return self_.matrices * matrix_rows_; }
  [[nodiscard]] std::uint64_t row_bytes() const noexcept { return row_bytes_; }

  void mark(const Executed& rows, Written& written) const {
    const plan::Segment& segment = plan_.segments[rows.segment];
    // Padding comes with the tiles, after the canonical order.
    if (segment.op == plan::Op::zero && canonical_) return;
    const std::uint64_t matrix = segment.matrix * matrix_rows_;
    if (!tiled_ && (canonical_ || weight_.row_map == plan::kNone)) {
      written.mark(matrix + segment.row_begin + rows.row_begin, rows.rows);
      return;
    }
    for (std::uint64_t r = rows.row_begin; r < rows.row_begin + rows.rows; ++r) {
      written.mark(matrix + flag_of(plan::stored_row(plan_, segment, r)), 1);
    }
  }

  /// Where the first byte of a flag's row is.
  [[nodiscard]] std::uint64_t first_byte(std::uint64_t flag) const {
    return tiled_ ? flag / 128 * (128 * row_bytes_) + flag % 128 * 4 : flag * row_bytes_;
  }

 private:
  [[nodiscard]] bool is_scale() const noexcept { return self_.scale_of != plan::kNone; }

  /// Inside a tile row r begins at byte r % 32 * 16 + r / 32 * 4.
  [[nodiscard]] std::uint64_t flag_of(std::uint64_t stored) const {
    return tiled_ ? stored / 128 * 128 + stored % 32 * 4 + stored % 128 / 32 : stored;
  }

  const plan::Plan& plan_;
  const plan::Destination& self_;
  const plan::Destination& weight_;
  bool canonical_, tiled_;
  std::uint64_t row_bytes_ = 0, matrix_rows_ = 0;
};

std::optional<Finding> fault_of(const std::string& tensor, const Region& region, const Written& written) {
  const auto in_bytes = [&region](const Written::Found& rows) {
    return Written::Found{region.first_byte(rows.first), rows.count * region.row_bytes()};
  };
  const Written::Found missing = in_bytes(written.missing());
  const Written::Found again = in_bytes(written.again());
  const Written::Found outside = in_bytes(written.outside());
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
      bytes[i] = region.rows() * region.row_bytes();
      Written written(region.rows());
      for (const std::uint32_t record : records.of[i]) region.mark(executed[record], written);
      faults[i] = fault_of(plan.destinations[i].spec.name, region, written);
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
