// JUnit XML, and workflow commands of GitHub Actions.
#include <fmt/format.h>

#include <algorithm>

#include "base/junit.hpp"
#include "gate/text.hpp"
#include "refit/gate/render.hpp"

namespace refit::gate {
namespace {

bool passes(Verdict verdict) {
  return verdict == Verdict::pass || verdict == Verdict::improved;
}

/// "322.4 ms, baseline 300.1 ms, +7.4 % (95 %: +5.1 % to +9.9 %), allowed 5 %; reason".
std::string sentence(const Row& row) {
  std::string text = row.after;
  if (!row.before.empty()) text += fmt::format(", {} {}", row.limit ? "limit" : "baseline", row.before);
  if (!row.change.empty()) text += ", " + row.change;
  if (!row.interval.empty()) text += fmt::format(" (95 %: {})", row.interval);
  if (!row.allowed.empty()) text += ", allowed " + row.allowed;
  if (!row.reason.empty()) text += (text.empty() ? "" : "; ") + row.reason;
  return text;
}

/// Source: GitHub's actions/toolkit, packages/core/src/command.ts, of a message.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '%':
        out += "%25";
        break;
      case '\r':
        out += "%0D";
        break;
      case '\n':
        out += "%0A";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string command(const char* level, const std::string& message) {
  return fmt::format("::{} title=refit-gate::{}\n", level, escaped(message));
}

}  // namespace

std::string to_junit(const Report& report) {
  std::vector<JunitCase> cases;
  for (const Remark& remark : remarks(report)) {
    if (remark.kind == Remark::Kind::note) continue;
    cases.push_back({"refit-gate.files", fmt::format("files {}", cases.size() + 1),
                     JunitCase::Outcome::failed, std::string(label(remark.kind)), remark.text});
  }
  for (const Row& row : rows(report)) {
    const bool passed = passes(row.verdict);
    cases.push_back({row.limit ? "refit-gate.limits" : "refit-gate.phases", row.name,
                     passed ? JunitCase::Outcome::passed : JunitCase::Outcome::failed,
                     std::string(name_of(row.verdict)), passed ? "" : sentence(row)});
  }
  return junit_xml("refit-gate", cases);
}

std::string to_annotations(const Report& report) {
  std::string text;
  for (const Remark& remark : remarks(report)) {
    if (remark.kind != Remark::Kind::note) text += command("error", remark.text);
  }
  for (const Row& row : rows(report)) {
    if (passes(row.verdict)) continue;
    text += command(row.verdict == Verdict::ambiguous ? "warning" : "error",
                    fmt::format("{}: {}: {}", name_of(row.verdict), row.name, sentence(row)));
  }
  return text + command("notice", summary(report));
}

}  // namespace refit::gate
