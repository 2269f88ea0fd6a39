// NeMo-RL's timers: what was measured here beside what was published.
#include <fmt/format.h>

#include <algorithm>

#include "page/html.hpp"
#include "page/sections.hpp"
#include "page/units.hpp"

namespace refit::page {
namespace {

struct Columns {
  Unit unit;
  bool extrapolated, published;
};

std::string head(const Columns& columns) {
  const std::string both = "<th>control</th><th>treatment</th>";
  std::string groups = fmt::format(
      "<th colspan=\"3\">median, {}</th><th colspan=\"2\">spread, %</th>"
      "<th colspan=\"2\">\u00d7 floor</th>",
      columns.unit.name);
  std::string names = both + "<th>change</th>" + both + both;
  if (columns.extrapolated) {
    groups += "<th colspan=\"2\">extrapolated, s</th>";
    names += both;
  }
  if (columns.published) {
    groups += "<th colspan=\"2\">published, s</th>";
    names += both;
  }
  return fmt::format("<tr><th rowspan=\"2\">phase</th>{}</tr><tr>{}</tr>", groups, names);
}

std::string phase_name(const Phase& phase) {
  const std::size_t slash = phase.key.find('/');
  std::string html = slash == phase.key.npos
                         ? name(phase.key)
                         : fmt::format("<span class=\"path\">{}/</span><wbr>{}",
                                       text(phase.key.substr(0, slash)), name(phase.key.substr(slash + 1)));
  return phase.source == "stand-in" ? html + " *" : html;
}

TableRow row_of(const Phase& control, const Phase& treatment, const Columns& columns) {
  TableRow row{phase_name(control),
               {number_in(columns.unit, control.median), number_in(columns.unit, treatment.median),
                change(control.median, treatment.median), percent(control.spread), percent(treatment.spread),
                times(control.x_floor), times(treatment.x_floor)},
               control.key == kTransfer ? "main" : ""};
  const Unit seconds{"s", 1, 3};
  if (columns.extrapolated) {
    row.cells.push_back(number_in(seconds, control.extrapolated));
    row.cells.push_back(number_in(seconds, treatment.extrapolated));
  }
  if (columns.published) {
    row.cells.push_back(quoted(control.published));
    row.cells.push_back(quoted(treatment.published));
  }
  return row;
}

}  // namespace

std::string phase_section(const Result& result) {
  if (result.arms.empty()) return "";
  double largest = 0;
  Columns columns{unit_for(0), false, false};
  for (const Arm& arm : result.arms) {
    for (const Phase& phase : arm.phases) {
      largest = std::max(largest, phase.median.value_or(0));
      columns.extrapolated = columns.extrapolated || phase.extrapolated;
      columns.published = columns.published || phase.published;
    }
  }
  columns.unit = unit_for(largest);
  std::vector<TableRow> rows;
  for (const Phase& control : result.arms[0].phases) {
    const Phase* treatment = find_phase(result.arms[1], control.key);
    if (treatment == nullptr || (control.moved_nothing && treatment->moved_nothing)) continue;
    if (!control.median && !treatment->median && !control.published && !treatment->published) continue;
    rows.push_back(row_of(control, *treatment, columns));
  }
  if (rows.empty()) return "";
  return section("phases", "Phases", table("phases", head(columns), rows));
}

}  // namespace refit::page
