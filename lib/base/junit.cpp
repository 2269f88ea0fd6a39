// JUnit XML, as build servers read it: one suite of cases.
#include "base/junit.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/markup.hpp"
#include "refit/base/printable.hpp"

namespace refit {
namespace {

std::string case_xml(const JunitCase& one) {
  const std::string head =
      fmt::format("  <testcase classname=\"{}\" name=\"{}\"", markup_escaped(printable(one.group)),
                  markup_escaped(printable(one.name)));
  switch (one.outcome) {
    case JunitCase::Outcome::passed:
      break;
    case JunitCase::Outcome::failed:
      return head + fmt::format("><failure type=\"{}\" message=\"{}\"/></testcase>\n",
                                markup_escaped(one.type), markup_escaped(one.message));
    case JunitCase::Outcome::skipped:
      return head + fmt::format("><skipped message=\"{}\"/></testcase>\n", markup_escaped(one.message));
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
      markup_escaped(suite), cases.size(), number_of(JunitCase::Outcome::failed),
      number_of(JunitCase::Outcome::skipped));
  for (const JunitCase& one : cases) text += case_xml(one);
  return text + "</testsuite>\n";
}

}  // namespace refit
