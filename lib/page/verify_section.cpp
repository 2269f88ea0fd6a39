// What each check compared and found.
#include <fmt/format.h>

#include <algorithm>

#include "page/html.hpp"
#include "page/sections.hpp"
#include "page/units.hpp"
#include "refit/base/bytes.hpp"

namespace refit::page {
namespace {

constexpr std::size_t kMostFindings = 20;

std::string cell(const Check& check) {
  if (check.mismatches == 0) return fmt::format("\u2713 equal, {}", format_bytes(check.bytes));
  return fmt::format("<strong class=\"wrong\">\u2717 differs, {} mismatches</strong>",
                     grouped(check.mismatches));
}

std::vector<std::string> check_names(const Result& result) {
  std::vector<std::string> names = {"wire", "quantizer", "layout", "coverage"};
  for (const Arm& arm : result.arms) {
    if (!arm.verdict) continue;
    for (const Check& check : *arm.verdict) {
      if (std::find(names.begin(), names.end(), check.name) == names.end()) names.push_back(check.name);
    }
  }
  return names;
}

std::string findings(const Result& result) {
  std::vector<TableRow> rows;
  for (std::size_t arm = 0; arm < result.arms.size(); ++arm) {
    if (!result.arms[arm].verdict) continue;
    for (const Check& check : *result.arms[arm].verdict) {
      for (const Check::Finding& finding : check.findings) {
        if (rows.size() == kMostFindings) break;
        rows.push_back({fmt::format("{}, {}", kArms[arm], name(check.name)),
                        {name(finding.tensor), text(finding.what), name(finding.index),
                         name(finding.expected), name(finding.got), grouped(finding.count)},
                        "finding"});
      }
    }
  }
  if (rows.empty()) return "";
  return "<h3>First findings</h3>\n" + table("findings",
                                             "<tr><th>where</th><th>tensor</th><th>what</th><th>at</"
                                             "th><th>expected</th><th>got</th><th>in all</th></tr>",
                                             rows);
}

}  // namespace

std::string verify_section(const Result& result) {
  if (!result.measured()) return "";
  std::vector<TableRow> rows;
  for (const std::string& check : check_names(result)) {
    TableRow row{name(check), {}, "text"};
    for (const Arm& arm : result.arms) {
      std::string html = "not verified";
      if (arm.verdict) {
        const auto found = std::find_if(arm.verdict->begin(), arm.verdict->end(),
                                        [&](const Check& c) { return c.name == check; });
        html = found == arm.verdict->end() ? kNone : cell(*found);
      }
      row.cells.push_back(std::move(html));
    }
    rows.push_back(std::move(row));
  }
  TableRow refits{"<em>refits compared</em>", {}, "text"};
  for (const Arm& arm : result.arms) refits.cells.push_back(fmt::format("{}", arm.verified_refits));
  rows.push_back(std::move(refits));
  return section("verification", "Verification",
                 table("verification", "<tr><th>check</th><th>control</th><th>treatment</th></tr>", rows) +
                     findings(result));
}

}  // namespace refit::page
