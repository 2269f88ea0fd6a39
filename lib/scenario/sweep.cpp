// Reading axes strictly, and multiplying them out.
#include "refit/scenario/sweep.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>

#include "base/json.hpp"
#include "base/nearest.hpp"
#include "refit/base/error.hpp"
#include "refit/plan/switches.hpp"

namespace refit::scenario {
namespace {

constexpr std::string_view kLayers = "layers", kThreads = "threads";
constexpr std::uint64_t kMostThreads = 4096;

std::vector<std::string> known_keys() {
  std::vector<std::string> keys;
  for (const auto& [name, value] : plan::to_pairs(plan::Switches{})) keys.push_back(name);
  keys.emplace_back(kLayers);
  keys.emplace_back(kThreads);
  return keys;
}

void check_key(const std::string& key) {
  const std::vector<std::string> keys = known_keys();
  if (std::ranges::find(keys, key) != keys.end()) return;
  const std::vector<std::string_view> words(keys.begin(), keys.end());
  const auto meant = nearest(key, words);
  fail_input(
      meant ? fmt::format("there is no {} to sweep; did you mean \"{}\"?", json_quoted(key), *meant)
            : fmt::format("there is no {} to sweep; there are {}", json_quoted(key), fmt::join(keys, ", ")));
}

void check_value(const std::string& key, const std::string& value) {
  if (key != kLayers && key != kThreads) {
    plan::Switches switches;
    return plan::set_switch(switches, key, value);
  }
  const std::uint64_t most = key == kThreads ? kMostThreads : std::numeric_limits<std::uint32_t>::max();
  std::uint64_t count = 0;
  const char* const end = value.data() + value.size();
  const auto [reached, error] = std::from_chars(value.data(), end, count);
  if (error != std::errc{} || reached != end || count < 1 || count > most) {
    fail_input(fmt::format("{} takes whole numbers from 1 to {}, not {}", key, most, json_quoted(value)));
  }
}

}  // namespace

SweepAxis parse_sweep_axis(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == text.npos || equals == 0) {
    fail_input(fmt::format("a sweep is written KEY=VALUE,VALUE,.., and {} is not", json_quoted(text)));
  }
  SweepAxis axis{std::string(text.substr(0, equals)), {}};
  check_key(axis.key);
  for (std::size_t begin = equals + 1; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string value(text.substr(begin, end - begin));
    if (value.empty()) fail_input(fmt::format("{} has an empty value", json_quoted(text)));
    check_value(axis.key, value);
    if (std::ranges::find(axis.values, value) != axis.values.end()) {
      fail_input(fmt::format("{} has {} twice", json_quoted(text), json_quoted(value)));
    }
    axis.values.push_back(value);
    begin = end + 1;
  }
  return axis;
}

std::vector<SweepPoint> sweep_points(const std::vector<SweepAxis>& axes) {
  std::vector<SweepPoint> points(1);
  for (std::size_t a = 0; a < axes.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      if (axes[a].key == axes[b].key) fail_input(fmt::format("{} is swept twice", axes[a].key));
    }
    if (points.size() * axes[a].values.size() > kMostSweepPoints) {
      std::vector<std::size_t> counts;
      for (const SweepAxis& axis : axes) counts.push_back(axis.values.size());
      fail_input(fmt::format("a sweep of {} points was asked for, and {} are the most",
                             fmt::join(counts, " x "), kMostSweepPoints));
    }
    std::vector<SweepPoint> longer;
    for (const SweepPoint& point : points) {
      for (const std::string& value : axes[a].values) {
        longer.push_back(point);
        longer.back().emplace_back(axes[a].key, value);
      }
    }
    points = std::move(longer);
  }
  return points;
}

}  // namespace refit::scenario
