// Plain text for people.
#include "verdict_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "refit/base/printable.hpp"

namespace refit::apps {

std::string describe(verify::Check check, const verify::Finding& finding) {
  return fmt::format("{}: {}[{}] is {}, expected {} ({} differing): {}", verify::name_of(check),
                     printable(finding.tensor), finding.index, finding.got, finding.expected, finding.count,
                     finding.what);
}

std::string describe(const verify::Verdict& verdict, std::size_t most) {
  std::string text;
  for (const verify::Check check : verify::kChecks) {
    const verify::Result& result = verdict[check];
    if (result.bytes == 0 && result.mismatches == 0) {
      text += fmt::format("  {:<10} not checked\n", verify::name_of(check));
      continue;
    }
    text += fmt::format("  {:<10} {:<6} {:>14} bytes, {} mismatches\n", verify::name_of(check),
                        result.mismatches == 0 ? "passed" : "FAILED", result.bytes, result.mismatches);
    const std::size_t shown = std::min(most, result.findings.size());
    for (std::size_t i = 0; i < shown; ++i) text += "    " + describe(check, result.findings[i]) + "\n";
    if (shown < result.findings.size()) {
      text += fmt::format("    and {} more tensors\n", result.findings.size() - shown);
    }
  }
  return text;
}

}  // namespace refit::apps
