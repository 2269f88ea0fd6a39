// From names to factors.
#include "refit/ablation/factors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "base/json.hpp"
#include "base/nearest.hpp"
#include "refit/base/error.hpp"

namespace refit::ablation {
namespace {

std::vector<std::string> parts_of(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool is_factor(const Setting& setting) {
  return setting.differs() && setting.unused_because.empty();
}

const Setting& find_setting(const std::vector<Setting>& settings, const std::string& name) {
  const auto found =
      std::ranges::find_if(settings, [&](const Setting& setting) { return setting.name == name; });
  if (found == settings.end()) {
    std::vector<std::string_view> names;
    for (const Setting& setting : settings) names.push_back(setting.name);
    const auto meant = nearest(name, names);
    fail_input(meant ? fmt::format("there is no switch {}; did you mean \"{}\"?", json_quoted(name), *meant)
                     : fmt::format("there is no switch {}; there are {}", json_quoted(name),
                                   fmt::join(names, ", ")));
  }
  if (!found->differs()) {
    fail_input(fmt::format("{} is {} in both arms, so nothing is due to it", name, found->control));
  }
  if (!found->unused_because.empty()) {
    fail_input(fmt::format("nothing is due to {}: {}", name, found->unused_because));
  }
  return *found;
}

std::vector<Factor> each_alone(const std::vector<Setting>& settings) {
  std::vector<Factor> factors;
  for (const Setting& setting : settings) {
    if (is_factor(setting)) factors.push_back({setting.name, {setting}});
  }
  if (factors.empty()) {
    fail_input(
        "control and treatment differ in no switch that either looks at: there is nothing to attribute");
  }
  return factors;
}

}  // namespace

std::vector<Factor> choose_factors(const std::vector<Setting>& settings, std::string_view text) {
  if (text.empty()) return each_alone(settings);
  std::vector<Factor> factors;
  std::vector<std::string> seen;
  for (const std::string& group : parts_of(text, ',')) {
    Factor factor{group, {}};
    for (const std::string& name : parts_of(group, '+')) {
      if (name.empty()) {
        fail_input(
            fmt::format("factors are written SWITCH,SWITCH+SWITCH,.., and {} is not", json_quoted(text)));
      }
      factor.settings.push_back(find_setting(settings, name));
      if (std::ranges::find(seen, name) != seen.end()) {
        fail_input(fmt::format("{} is in {} twice", name, json_quoted(text)));
      }
      seen.push_back(name);
    }
    factors.push_back(std::move(factor));
  }
  return factors;
}

std::vector<std::string> names_of(const std::vector<Factor>& factors, Subset subset) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    if ((subset >> i & 1) != 0) names.push_back(factors[i].name);
  }
  return names;
}

std::string label(const std::vector<Factor>& factors, Subset subset) {
  if (subset == 0) return "none";
  const Subset off = all_of(factors.size()) & ~subset;
  if (off == 0) return "all";
  if (std::popcount(off) < std::popcount(subset)) {
    return fmt::format("all but {}", fmt::join(names_of(factors, off), ", "));
  }
  return fmt::format("{}", fmt::join(names_of(factors, subset), ", "));
}

}  // namespace refit::ablation
