// What the checks are called, and how their results add up.
#include <algorithm>
#include <iterator>
#include <utility>

#include "refit/verify/verify.hpp"

namespace refit::verify {

std::string_view name_of(Check check) noexcept {
  switch (check) {
    case Check::wire:
      return "wire";
    case Check::quantizer:
      return "quantizer";
    case Check::layout:
      return "layout";
    case Check::coverage:
      return "coverage";
  }
  return "";
}

std::optional<Check> parse_check(std::string_view name) noexcept {
  const auto* const found =
      std::find_if(kChecks.begin(), kChecks.end(), [name](Check check) { return name_of(check) == name; });
  if (found == kChecks.end()) return std::nullopt;
  return *found;
}

void Result::add(Finding finding) {
  mismatches += finding.count;
  if (findings.size() < kMaxFindings) findings.push_back(std::move(finding));
}

void Result::merge(Result other) {
  bytes += other.bytes;
  mismatches += other.mismatches;
  const std::size_t taken = std::min(other.findings.size(), kMaxFindings - findings.size());
  std::move(other.findings.begin(), other.findings.begin() + static_cast<std::ptrdiff_t>(taken),
            std::back_inserter(findings));
}

bool Verdict::passed() const noexcept {
  return std::all_of(results.begin(), results.end(),
                     [](const Result& result) { return result.mismatches == 0; });
}

void Verdict::merge(Verdict other) {
  for (std::size_t check = 0; check < results.size(); ++check) {
    results[check].merge(std::move(other.results[check]));
  }
}

}  // namespace refit::verify
