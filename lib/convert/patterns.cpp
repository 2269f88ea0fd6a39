// Wildcards by going back to the last star, which needs no recursion.
#include "convert/patterns.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "refit/base/error.hpp"

namespace refit::convert {
namespace {

bool matches_wildcard(std::string_view name, std::string_view pattern) noexcept {
  constexpr std::size_t none = std::string_view::npos;
  std::size_t n = 0, p = 0, star = none, star_name = 0;
  while (n < name.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || (pattern[p] != '*' && pattern[p] == name[n]))) {
      ++n, ++p;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_name = n;
    } else if (star != none) {
      p = star + 1;
      n = ++star_name;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == none;
}

}  // namespace

bool matches(std::string_view name, std::string_view pattern) noexcept {
  if (pattern.find_first_of("*?") == std::string_view::npos) return name.find(pattern) != name.npos;
  return matches_wildcard(name, pattern);
}

bool matches_any(std::string_view name, const std::vector<std::string>& patterns) noexcept {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches(name, pattern); });
}

void check_patterns(const std::vector<std::string>& patterns, std::string_view option) {
  if (std::find(patterns.begin(), patterns.end(), "") != patterns.end()) {
    fail_input(fmt::format("{}: an empty pattern is a part of every name", option));
  }
}

}  // namespace refit::convert
