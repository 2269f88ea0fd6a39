// Which rank is slow, in which stage, and what each sent, held and proved.
#include <fmt/format.h>

#include <algorithm>

#include "page/bars.hpp"
#include "page/cells.hpp"
#include "page/html.hpp"
#include "page/sections.hpp"
#include "page/units.hpp"
#include "refit/base/bytes.hpp"

namespace refit::page {
namespace {

constexpr std::size_t kMostRows = 64;

/// One line of the map: seconds of every rank, in the order of the result; none where a rank has no such
/// stage.
struct Line {
  std::string name;
  std::vector<std::optional<double>> seconds;
};

std::vector<Line> lines_of(const Ranks& ranks, std::size_t arm) {
  std::vector<Line> lines{{"whole step", {}}};
  for (const Rank& rank : ranks.rows) {
    lines.front().seconds.push_back(rank.arms[arm].median);
    for (const auto& [name, seconds] : rank.arms[arm].stages) {
      const bool known =
          std::any_of(lines.begin() + 1, lines.end(), [&](const Line& l) { return l.name == name; });
      if (!known) lines.push_back({name, std::vector<std::optional<double>>(ranks.rows.size())});
    }
  }
  for (std::size_t i = 0; i < ranks.rows.size(); ++i) {
    for (const auto& [name, seconds] : ranks.rows[i].arms[arm].stages) {
      std::find_if(lines.begin() + 1, lines.end(), [&](const Line& l) {
        return l.name == name;
      })->seconds[i] = seconds;
    }
  }
  std::stable_sort(lines.begin() + 1, lines.end(), [](const Line& a, const Line& b) {
    return place_of_stage(a.name) < place_of_stage(b.name);
  });
  return lines;
}

std::string heat_line(const Ranks& ranks, const Line& line, double most, const Unit& unit) {
  const Cells cells(ranks);
  const double width = 100.0 / static_cast<double>(cells.count());
  std::string body;
  for (std::size_t cell = 0; cell < cells.count(); ++cell) {
    std::optional<double> slowest;
    for (std::size_t i = cells.first(cell); i < cells.end(cell); ++i) {
      if (line.seconds[i] && (!slowest || *line.seconds[i] > *slowest)) slowest = line.seconds[i];
    }
    if (!slowest) continue;
    const double heat = most > 0 ? *slowest / most : 0, x = width * static_cast<double>(cell);
    body += fmt::format(
        "<rect x=\"{:.3f}%\" y=\"0\" width=\"{:.3f}%\" height=\"26\" class=\"heat\" "
        "fill-opacity=\"{:.3f}\"><title>{}, "
        "{}: {}</title></rect>",
        x, width, heat, cells.name(cell), text(line.name), duration(*slowest));
    const Fit place = fit(54, width / 100);
    if (place.ever) {
      body += svg_text(x + width / 2, 17.5, fmt::format("t {} {}", heat > 0.55 ? "hot" : "cold", place.kind),
                       "middle", number_in(unit, slowest));
    }
  }
  return lane(shortened(line.name, 22), picture(26, text(line.name), body));
}

std::string rank_axis(const Ranks& ranks, const std::optional<std::uint64_t>& straggler) {
  const Cells cells(ranks);
  const double width = 100.0 / static_cast<double>(cells.count());
  std::string body;
  for (std::size_t cell = 0; cell < cells.count(); ++cell) {
    const std::size_t first = cells.first(cell);
    const double middle = width * (static_cast<double>(cell) + 0.5);
    const bool slowest = std::any_of(ranks.rows.begin() + static_cast<std::ptrdiff_t>(first),
                                     ranks.rows.begin() + static_cast<std::ptrdiff_t>(cells.end(cell)),
                                     [&](const Rank& rank) { return rank.number == straggler; });
    if (cell % Cells::numbered(width) == 0) {
      body += svg_text(middle, 12, "t small", "middle", fmt::format("{}", ranks.rows[first].number));
    }
    if (slowest && ranks.rows.size() > 1) {
      body += svg_text(middle, 26, "t small strong",
                       middle < 8    ? "start"
                       : middle > 92 ? "end"
                                     : "middle",
                       "\u25bc slowest");
    }
  }
  return lane("rank", picture(30, "ranks", body));
}

std::string heat_key(double most) {
  std::string ramp;
  for (int i = 0; i < 12; ++i) {
    ramp += fmt::format("<rect x=\"{}\" width=\"10\" height=\"12\" class=\"heat\" fill-opacity=\"{:.2f}\"/>",
                        10 * i, i / 11.0);
  }
  return fmt::format(
      "<p class=\"key\">0 <svg width=\"120\" height=\"12\" aria-hidden=\"true\">{}</svg> {}</p>", ramp,
      duration(most));
}

std::string heat_map(const Ranks& ranks, std::size_t arm) {
  const std::vector<Line> lines = lines_of(ranks, arm);
  double most = 0;
  for (const Line& line : lines) {
    for (const auto& seconds : line.seconds) most = std::max(most, seconds.value_or(0));
  }
  const Unit unit = unit_for(most);
  std::string html;
  for (const Line& line : lines) html += heat_line(ranks, line, most, unit);
  const std::string rounds = ranks.rounds[arm] ? fmt::format(", {} {}", *ranks.rounds[arm],
                                                             *ranks.rounds[arm] == 1 ? "round" : "rounds")
                                               : "";
  return fmt::format(
      "<figure class=\"map\"><p class=\"arm\"><span class=\"dot {0}\"></span> <strong>{0}</strong> median "
      "{1} of every "
      "rank{2}</p>\n{3}{4}{5}</figure>\n",
      kArms[arm], unit.name, rounds, rank_axis(ranks, ranks.straggler[arm]), html, heat_key(most));
}

std::string verdict_of(const Rank& rank) {
  if (differs(rank.arms[0].verdict) || differs(rank.arms[1].verdict))
    return "<strong class=\"wrong\">\u2717 differs</strong>";
  return rank.arms[0].verdict && rank.arms[1].verdict ? "\u2713 equal" : "not verified";
}

/// Indices: all of few, else the slowest of each arm and those with wrong bytes.
std::vector<std::size_t> shown_rows(const Ranks& ranks) {
  std::vector<std::size_t> rows(ranks.rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = i;
  if (rows.size() <= kMostRows) return rows;
  std::vector<std::size_t> shown;
  for (const std::size_t i : rows) {
    const auto& arms = ranks.rows[i].arms;
    if ((differs(arms[0].verdict) || differs(arms[1].verdict)) && shown.size() < kMostRows / 2)
      shown.push_back(i);
  }
  for (std::size_t arm = 0; arm < kArms.size(); ++arm) {
    std::stable_sort(rows.begin(), rows.end(), [&](std::size_t a, std::size_t b) {
      return ranks.rows[a].arms[arm].median.value_or(0) > ranks.rows[b].arms[arm].median.value_or(0);
    });
    shown.insert(shown.end(), rows.begin(), rows.begin() + kMostRows / 4);
  }
  std::sort(shown.begin(), shown.end());
  shown.erase(std::unique(shown.begin(), shown.end()), shown.end());
  return shown;
}

std::string rank_table(const Ranks& ranks) {
  double most = 0;
  for (const Rank& rank : ranks.rows) {
    for (const RankArm& arm : rank.arms) most = std::max(most, arm.median.value_or(0));
  }
  const Unit unit = unit_for(most);
  std::vector<TableRow> rows;
  const std::vector<std::size_t> shown = shown_rows(ranks);
  for (const std::size_t i : shown) {
    const Rank& rank = ranks.rows[i];
    TableRow row{fmt::format("{}", rank.number), {name(rank.host)}, ""};
    for (const RankArm& arm : rank.arms) row.cells.push_back(number_in(unit, arm.median));
    for (const RankArm& arm : rank.arms) row.cells.push_back(bytes_or_none(arm.sent));
    for (const RankArm& arm : rank.arms) row.cells.push_back(bytes_or_none(arm.received));
    for (const RankArm& arm : rank.arms) row.cells.push_back(bytes_or_none(arm.peak_extra_bytes));
    row.cells.push_back(verdict_of(rank));
    rows.push_back(std::move(row));
  }
  const std::string both = "<th>control</th><th>treatment</th>";
  std::string html = table(
      "ranks",
      fmt::format("<tr><th rowspan=\"2\">rank</th><th rowspan=\"2\">host</th><th colspan=\"2\">step, {}</th>"
                  "<th colspan=\"2\">sent to others</th><th colspan=\"2\">received</th><th "
                  "colspan=\"2\">peak extra</th>"
                  "<th rowspan=\"2\">bytes</th></tr><tr>{}{}{}{}</tr>",
                  unit.name, both, both, both, both),
      rows);
  if (shown.size() < ranks.rows.size()) {
    html += fmt::format(
        "<p class=\"small\">These are the slowest of {} ranks and any whose bytes differ; the others are in "
        "the JSON "
        "below.</p>\n",
        ranks.rows.size());
  }
  return html;
}

}  // namespace

std::string ranks_section(const Result& result) {
  if (!result.ranks || result.ranks->rows.empty()) return "";
  const Ranks& ranks = *result.ranks;
  std::string html =
      fmt::format("<p>{} ranks: trainer {}, generator {}, {}{}.</p>\n", ranks.count, name(ranks.train),
                  name(ranks.gen), ranks.colocated ? "on the same ranks" : "on ranks of their own",
                  ranks.exchange.empty() ? "" : "; bytes move by " + name(ranks.exchange));
  for (const std::string& note : ranks.notes) html += "<p class=\"note\">Note: " + text(note) + "</p>\n";
  for (std::size_t arm = 0; arm < kArms.size(); ++arm) html += heat_map(ranks, arm);
  return section("ranks", "Ranks", html + rank_table(ranks));
}

}  // namespace refit::page
