// Cut before it is joined.
#include "gate/lists.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace refit::gate {
namespace {

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

}  // namespace

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kMostListed = 40;
  const std::size_t shown = std::min(names.size(), kMostListed);
  const std::string list =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  return shown == names.size() ? list : list + fmt::format(" and {} more", names.size() - shown);
}

std::string own_lines(std::string_view value, std::string_view other) {
  const std::vector<std::string> lines = lines_of(other);
  const std::set<std::string> others(lines.begin(), lines.end());
  std::vector<std::string> own = lines_of(value);
  std::erase_if(own, [&](const std::string& line) { return others.contains(line); });
  return own.empty() ? "-" : listed(own);
}

}  // namespace refit::gate
