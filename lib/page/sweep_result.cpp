// Points as a sweep wrote them. Objects of JSON have no order: that of the axes shows in how fast each
// changes.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "page/html.hpp"
#include "page/sweep.hpp"
#include "refit/base/bytes.hpp"
#include "refit/base/error.hpp"

namespace refit::page {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

Settings read_settings(const JsonNode& point) {
  Settings settings;
  for (const auto& [key, value] : point.at("set").members()) {
    settings.emplace_back(key, value.json().is_string() ? value.text() : std::to_string(value.count()));
  }
  if (settings.empty()) point.at("set").fail("names nothing that was set");
  return settings;
}

/// The keys, the one that changes first last.
std::vector<std::size_t> slowest_first(const std::vector<Settings>& points) {
  std::vector<std::size_t> keys(points.front().size()), changes(keys.size());
  std::iota(keys.begin(), keys.end(), std::size_t{0});
  for (const std::size_t key : keys) {
    while (changes[key] < points.size() && points[changes[key]][key] == points.front()[key]) ++changes[key];
    if (changes[key] == points.size()) changes[key] = 0;  // one value: no axis of a curve
  }
  std::stable_sort(keys.begin(), keys.end(),
                   [&](std::size_t a, std::size_t b) { return changes[a] > changes[b]; });
  return keys;
}

std::optional<double> as_number(const std::string& value) {
  try {
    return static_cast<double>(parse_bytes(value, "value"));
  } catch (const Error&) {
    return std::nullopt;
  }
}

SweepAxis make_axis(const std::vector<Settings>& points, std::size_t key) {
  SweepAxis axis{points.front()[key].first, {}, {}};
  for (const Settings& point : points) {
    const std::string& value = point[key].second;
    if (std::find(axis.values.begin(), axis.values.end(), value) == axis.values.end())
      axis.values.push_back(value);
  }
  std::vector<std::pair<double, std::string>> sorted;
  for (const std::string& value : axis.values) {
    const auto number = as_number(value);
    if (!number) return axis;
    sorted.emplace_back(*number, value);
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::size_t i = 0; i < sorted.size(); ++i) axis.values[i] = sorted[i].second;
  for (const auto& [number, value] : sorted) axis.numbers.push_back(number);
  return axis;
}

std::optional<SweepTimes> times_of(const Arm& arm) {
  const Phase* transfer = find_phase(arm, kTransfer);
  if (transfer == nullptr || !transfer->median) return std::nullopt;
  SweepTimes times{*transfer->median, *transfer->median, *transfer->median, transfer->x_floor};
  for (const double sample : transfer->samples) {
    times.low = std::min(times.low, sample);
    times.high = std::max(times.high, sample);
  }
  return times;
}

bool is_wrong(const Result& result) {
  bool wrong = result.status == "mismatch";
  for (const Arm& arm : result.arms) wrong = wrong || differs(arm.verdict);
  if (!result.ranks) return wrong;
  for (const Rank& rank : result.ranks->rows) {
    wrong = wrong || differs(rank.arms[0].verdict) || differs(rank.arms[1].verdict);
  }
  return wrong;
}

void read_point(const Result& result, SweepPoint& point) {
  point.status = result.status;
  point.message = result.message;
  point.ran = result.measured();
  if (!point.ran) return;
  point.wrong = is_wrong(result);
  point.verified = std::all_of(result.arms.begin(), result.arms.end(),
                               [](const Arm& arm) { return arm.verdict && arm.verified_refits > 0; });
  point.ratio = result.ratio;
  for (std::size_t i = 0; i < kArms.size(); ++i) {
    const auto& times = point.arms[i] = times_of(result.arms[i]);
    point.peak_extra_bytes[i] = result.arms[i].peak_extra_bytes;
    // A multiple of almost nothing is no floor that could be drawn.
    if (times && times->x_floor.value_or(0) > 1e-6) point.floor = times->median / *times->x_floor;
  }
}

}  // namespace

Sweep read_sweep(const JsonNode& root) {
  const std::vector<JsonNode> nodes = root.at("points").elements();
  if (nodes.empty()) root.at("points").fail("has no point");
  constexpr std::size_t kMostPoints = 10'000;  // ten times what a sweep runs
  if (nodes.size() > kMostPoints) {
    root.at("points").fail(fmt::format("has {} points; at most {} are drawn", nodes.size(), kMostPoints));
  }
  std::vector<Settings> settings;
  for (const JsonNode& node : nodes) {
    settings.push_back(read_settings(node));
    const bool alike =
        std::equal(settings.front().begin(), settings.front().end(), settings.back().begin(),
                   settings.back().end(), [](const auto& a, const auto& b) { return a.first == b.first; });
    if (!alike) node.at("set").fail("has other keys than that of the first point");
  }
  Sweep sweep{{}, {}, read_result(nodes.front().at("result")), {}};
  const std::vector<std::size_t> keys = slowest_first(settings);
  for (const std::size_t key : keys) sweep.axes.push_back(make_axis(settings, key));
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    SweepPoint& point = sweep.points.emplace_back();
    for (std::size_t a = 0; a < keys.size(); ++a) {
      const auto& values = sweep.axes[a].values;
      const auto found = std::find(values.begin(), values.end(), settings[i][keys[a]].second);
      point.at.push_back(static_cast<std::size_t>(found - values.begin()));
    }
    Result result = read_result(nodes[i].at("result"));
    read_point(result, point);
    const bool known =
        std::find(sweep.replayed.begin(), sweep.replayed.end(), result.replayed) != sweep.replayed.end();
    if (!known && !result.replayed.empty()) sweep.replayed.push_back(result.replayed);
    if (point.ran && !sweep.first.measured()) sweep.first = std::move(result);
  }
  return sweep;
}

std::string settings_of(const Sweep& sweep, const SweepPoint& point, std::size_t from) {
  std::string html;
  for (std::size_t a = from; a < sweep.axes.size(); ++a) {
    const SweepAxis& axis = sweep.axes[a];
    if (axis.values.size() == 1 && sweep.points.size() > 1) continue;
    html += fmt::format("{}{} {}", html.empty() ? "" : ", ", shortened(axis.key, 40),
                        shortened(axis.values[point.at[a]], 40));
  }
  return html;
}

}  // namespace refit::page
