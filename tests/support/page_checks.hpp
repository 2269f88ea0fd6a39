// Ways to look at a page as text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "support/catch.hpp"

namespace refit::test {

inline std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

/// What stands between the first `begin` after `from` and the next `end`.
inline std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t from = text.find(begin);
  REQUIRE(from != text.npos);
  const std::size_t to = text.find(end, from + begin.size());
  REQUIRE(to != text.npos);
  return text.substr(from + begin.size(), to - from - begin.size());
}

/// CHECKs that elements are closed in the order in which they were opened.
inline void check_nesting(const std::string& html) {
  std::vector<std::string> open;
  for (std::size_t at = html.find('<'); at != html.npos; at = html.find('<', at)) {
    const std::size_t end = html.find('>', at);
    REQUIRE(end != html.npos);
    const std::string tag = html.substr(at + 1, end - at - 1);
    const std::size_t name_at = tag.front() == '/' ? 1 : 0;
    const std::string name = tag.substr(name_at, tag.find_first_of(" />", name_at) - name_at);
    at = end;
    if (tag.front() == '!' || tag.back() == '/' || name == "meta" || name == "wbr") continue;
    if (name_at == 0) {
      open.push_back(name);
      // A browser looks for no markup in these.
      if (name == "script" || name == "style") at = html.find("</" + name, at);
      continue;
    }
    REQUIRE(!open.empty());
    REQUIRE(open.back() == name);
    open.pop_back();
  }
  CHECK(open.empty());
}

/// CHECKs that no number that is none reached what a page shows.
inline void check_numbers(const std::string& html) {
  const std::string shown = html.substr(0, html.find("<script type=\"application/json\""));
  for (const char* bad : {"nan", "inf%", "=\"inf", "\"-inf", ">inf<", "inf\u00a0"}) {
    CAPTURE(bad);
    CHECK(shown.find(bad) == shown.npos);
  }
}

}  // namespace refit::test
