// JUnit XML, as build servers read it: one suite of cases.
#include "base/junit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "refit/base/printable.hpp"

namespace refit {
namespace {

/// For an attribute.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\n':
        out += "&#10;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string case_xml(const JunitCase& one) {
  const std::string head = fmt::format("  <testcase classname=\"{}\" name=\"{}\"",
                                       escaped(printable(one.group)), escaped(printable(one.name)));
  switch (one.outcome) {
    case JunitCase::Outcome::passed:
      break;
    case JunitCase::Outcome::failed:
      return head + fmt::format("><failure type=\"{}\" message=\"{}\"/></testcase>\n", escaped(one.type),
                                escaped(one.message));
    case JunitCase::Outcome::skipped:
      return head + fmt::format("><skipped message=\"{}\"/></testcase>\n", escaped(one.message));
  }
  return head + "/>\n";
}

}  // namespace

std::string junit_xml(const std::string& suite, const std::vector<JunitCase>& cases) {
  const auto number_of = [&](JunitCase::Outcome outcome) {
    return std::count_if(cases.begin(), cases.end(),
                         [&](const JunitCase& c) { return c.outcome == outcome; });
  };
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\">\n",
      escaped(suite), cases.size(), number_of(JunitCase::Outcome::failed),
      number_of(JunitCase::Outcome::skipped));
  for (const JunitCase& one : cases) text += case_xml(one);
  return text + "</testsuite>\n";
}

}  // namespace refit
