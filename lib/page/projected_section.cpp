// What a refit would take elsewhere, apart from everything that was measured.
#include <fmt/format.h>

#include "page/html.hpp"
#include "page/sections.hpp"
#include "page/units.hpp"

namespace refit::page {
namespace {

struct ProjectedSeconds {
  std::optional<double> s, low, high;
};

ProjectedSeconds read_projected(const JsonNode& arm, const char* phase) {
  const auto seconds = find(arm, {"phases", phase});
  if (!seconds) return {};
  return {find_number(*seconds, "projected_s"), find_number(*seconds, "low_s"),
          find_number(*seconds, "high_s")};
}

std::string interval_of(const ProjectedSeconds& seconds, const Unit& unit) {
  if (!seconds.low || !seconds.high) return "\u2013";
  return fmt::format("{} .. {}", number_in(unit, seconds.low), number_in(unit, seconds.high));
}

}  // namespace

std::string projected_section(const Result& result) {
  const auto node = result.root.find("projected");
  if (!node) return "";
  const JsonNode control = node->at("arms").at("control"), treatment = node->at("arms").at("treatment");
  const Unit unit = unit_for(read_projected(control, kStep).s.value_or(0));
  std::vector<TableRow> rows;
  for (const char* phase : {kTransfer, kPrepare, kStep}) {
    const ProjectedSeconds off = read_projected(control, phase), on = read_projected(treatment, phase);
    if (!off.s || !on.s) continue;
    rows.push_back({name(phase),
                    {number_in(unit, off.s), number_in(unit, on.s), change(off.s, on.s),
                     interval_of(off, unit), interval_of(on, unit)},
                    ""});
  }
  std::string assumed;
  for (const JsonNode& sentence : node->at("assumed").elements()) assumed += text(sentence.text()) + " ";
  const std::string head = fmt::format(
      "<tr><th rowspan=\"2\">phase</th><th colspan=\"3\">projected, {}</th>"
      "<th colspan=\"2\">8 of 10 within</th></tr>"
      "<tr><th>control</th><th>treatment</th><th>change</th><th>control</th><th>treatment</th></tr>",
      unit.name);
  return section(
      "projected", "Projected elsewhere",
      paragraph(fmt::format("Nothing of this ran: the whole model on {} with {}, {}.",
                            text(node->at("platform").at("title").text()),
                            text(node->at("stack").at("title").text()), text(node->at("cluster").text()))) +
          table("phases", head, rows) + paragraph(assumed.empty() ? "" : "Assumed: " + assumed));
}

}  // namespace refit::page
