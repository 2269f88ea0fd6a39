// Every stage of both processes with its spread, its bytes and its floor.
#include <fmt/format.h>

#include <algorithm>

#include "page/html.hpp"
#include "page/sections.hpp"
#include "page/units.hpp"
#include "refit/time/statistics.hpp"

namespace refit::page {
namespace {

/// The same stage of both arms; null where an arm has none.
struct Pair {
  std::string key;
  const Stage *control = nullptr, *treatment = nullptr;
  [[nodiscard]] const Stage& any() const { return control != nullptr ? *control : *treatment; }
};

std::vector<Pair> pairs_of(const Result& result, const std::string& role) {
  std::vector<Pair> pairs;
  for (std::size_t arm = 0; arm < result.arms.size(); ++arm) {
    for (const Stage& stage : result.arms[arm].stages) {
      if (stage.role != role) continue;
      auto pair = std::find_if(pairs.begin(), pairs.end(), [&](const Pair& p) { return p.key == stage.key; });
      if (pair == pairs.end()) pair = pairs.insert(pairs.end(), Pair{stage.key});
      (arm == 0 ? pair->control : pair->treatment) = &stage;
    }
  }
  std::stable_sort(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) {
    return place_of_stage(a.any().name) < place_of_stage(b.any().name);
  });
  return pairs;
}

template <typename Cell>
void add_both(TableRow& row, const Pair& pair, Cell cell) {
  row.cells.push_back(pair.control == nullptr ? kNone : cell(*pair.control));
  row.cells.push_back(pair.treatment == nullptr ? kNone : cell(*pair.treatment));
}

TableRow row_of(const Pair& pair, const Unit& unit, bool device_times) {
  TableRow row{name(pair.any().name), {}, ""};
  add_both(row, pair, [&](const Stage& stage) { return number_in(unit, stage.median); });
  add_both(row, pair, [](const Stage& stage) {
    return stage.samples.size() < 2 ? std::string(kNone) : percent(summarize(stage.samples).spread);
  });
  if (device_times) add_both(row, pair, [&](const Stage& stage) { return number_in(unit, stage.device_s); });
  add_both(row, pair, [](const Stage& stage) { return times(stage.x_floor); });
  add_both(row, pair, [](const Stage& stage) { return bytes_or_none(stage.bytes); });
  add_both(row, pair,
           [](const Stage& stage) { return stage.launches == 0 ? kNone : grouped(stage.launches); });
  return row;
}

TableRow rest_row(const std::optional<double>& control, const std::optional<double>& treatment,
                  const Unit& unit, std::size_t cells) {
  TableRow row{"<em>unattributed</em>", {number_in(unit, control), number_in(unit, treatment)}, "rest-row"};
  row.cells.resize(cells, kNone);
  return row;
}

std::string head(const Unit& unit, bool device_times) {
  const auto group = [](const std::string& title) { return "<th colspan=\"2\">" + title + "</th>"; };
  std::string groups = group(fmt::format("median, {}", unit.name)) + group("spread, %");
  if (device_times) groups += group(fmt::format("GPU\u2019s clock, {}", unit.name));
  groups += group("\u00d7 floor") + group("bytes moved") + group("launches");
  std::string names;
  for (int i = device_times ? 6 : 5; i > 0; --i) names += "<th>control</th><th>treatment</th>";
  return fmt::format("<tr><th rowspan=\"2\">stage</th>{}</tr><tr>{}</tr>", groups, names);
}

}  // namespace

std::string stage_section(const Result& result) {
  if (!result.measured()) return "";
  double largest = 0;
  bool device_times = false;
  for (const Arm& arm : result.arms) {
    for (const Stage& stage : arm.stages) {
      largest = std::max({largest, stage.median, stage.device_s.value_or(0)});
      device_times = device_times || stage.device_s;
    }
  }
  const Unit unit = unit_for(largest);
  std::vector<TableRow> rows;
  for (const char* role : {"trainer", "generator"}) {
    const std::vector<Pair> pairs = pairs_of(result, role);
    if (pairs.empty()) continue;
    const std::size_t cells = device_times ? 12 : 10;
    if (!result.ranks) rows.push_back({role, std::vector<std::string>(cells), "role"});
    for (const Pair& pair : pairs) rows.push_back(row_of(pair, unit, device_times));
    const auto rest = std::string_view(role) == "trainer" ? &Arm::trainer_rest : &Arm::generator_rest;
    rows.push_back(rest_row(result.arms[0].*rest, result.arms[1].*rest, unit, cells));
  }
  std::string html = table("stages", head(unit, device_times), rows);
  if (device_times) {
    html +=
        "<p class=\"small\">The GPU\u2019s clock is that of the last warm-up refit, and so is \u00d7 floor: "
        "the host\u2019s "
        "seconds of a stage end when its work is asked for, not when it is done.</p>\n";
  }
  return section("stages", "Stages", html);
}

}  // namespace refit::page
