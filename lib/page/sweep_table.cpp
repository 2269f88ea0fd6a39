// Every point with its numbers, in the order in which they ran.
#include <fmt/format.h>

#include <algorithm>

#include "page/html.hpp"
#include "page/sweep.hpp"
#include "page/units.hpp"

namespace refit::page {
namespace {

std::string verdict_of(const SweepPoint& point) {
  if (point.wrong) return "<strong class=\"wrong\">\u2717 differs</strong>";
  if (!point.ran) return text(point.status);
  return point.verified ? "\u2713 equal" : "not verified";
}

std::string ratio_of(const SweepPoint& point) {
  if (!point.ratio) return kNone;
  return *point.ratio < 1000 ? fmt::format("{:.3f}", *point.ratio) : fmt::format("{:.3g}", *point.ratio);
}

TableRow row_of(const Sweep& sweep, const SweepPoint& point, const Unit& unit) {
  TableRow row{shortened(sweep.axes.front().values[point.at.front()], 60), {}, ""};
  for (std::size_t a = 1; a < sweep.axes.size(); ++a) {
    row.cells.push_back(shortened(sweep.axes[a].values[point.at[a]], 60));
  }
  const auto add = [&](const auto& cell) {
    for (std::size_t i = 0; i < kArms.size(); ++i) row.cells.push_back(cell(i));
  };
  add([&](std::size_t i) { return point.arms[i] ? number_in(unit, point.arms[i]->median) : kNone; });
  row.cells.push_back(ratio_of(point));
  add([&](std::size_t i) { return point.arms[i] ? times(point.arms[i]->x_floor) : kNone; });
  add([&](std::size_t i) { return bytes_or_none(point.peak_extra_bytes[i]); });
  row.cells.push_back(verdict_of(point));
  return row;
}

}  // namespace

std::string sweep_table_section(const Sweep& sweep) {
  double largest = 0;
  for (const SweepPoint& point : sweep.points) {
    for (const auto& times : point.arms) largest = std::max(largest, times ? times->median : 0);
  }
  const Unit unit = unit_for(largest);
  std::vector<TableRow> rows;
  for (const SweepPoint& point : sweep.points) rows.push_back(row_of(sweep, point, unit));
  std::string keys;
  for (const SweepAxis& axis : sweep.axes) {
    keys += "<th rowspan=\"2\">" + shortened(axis.key, 40) + "</th>";
  }
  const std::string both = "<th>control</th><th>treatment</th>";
  return section(
      "points", "Every point",
      table("points",
            fmt::format("<tr>{}<th colspan=\"2\">median, {}</th><th rowspan=\"2\">ratio</th><th "
                        "colspan=\"2\">\u00d7 floor</th><th colspan=\"2\">peak extra</th>"
                        "<th rowspan=\"2\">bytes</th></tr><tr>{}{}{}</tr>",
                        keys, unit.name, both, both, both),
            rows) +
          "<p class=\"small\">Ratio: treatment\u2019s median over control\u2019s. Peak extra: held beside "
          "sources and parameters.</p>\n");
}

}  // namespace refit::page
