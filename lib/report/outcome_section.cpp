// Traffic between the processes, verdicts and the first findings.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "refit/base/bytes.hpp"
#include "report/figures.hpp"
#include "report/sections.hpp"
#include "report/text.hpp"

namespace refit::report {
namespace {

constexpr std::size_t kShownFindings = 5;

std::string traffic_between_ranks(const Report& report, const char* name, const run::ArmResult& arm) {
  const std::optional<std::uint32_t>& simulated = report.scenario.ranks->simulated;
  return wrapped(
      fmt::format("{:<4}{} {} in {} {}; {} messages; at most {} beside sources and parameters, in {}", name,
                  format_bytes(arm.wire_bytes),
                  simulated ? fmt::format("sent by rank {}", *simulated) : "between ranks", arm.buckets,
                  arm.buckets == 1 ? "round" : "rounds", arm.messages, format_bytes(arm.peak_extra_bytes),
                  simulated ? "that rank" : "all ranks together"),
      4);
}

std::string traffic_lines(const Report&, const char* name, const run::ArmResult& arm) {
  return wrapped(
      fmt::format("{:<4}{} on the wire in {} buckets; {} messages, {}; {} handles opened; at most {} beside "
                  "sources and parameters",
                  name, format_bytes(arm.wire_bytes), arm.buckets, arm.messages,
                  format_bytes(arm.message_bytes), arm.handles_opened, format_bytes(arm.peak_extra_bytes)),
      4);
}

std::string verify_lines(const char* name, const run::ArmResult& arm) {
  if (arm.verified_refits == 0) return fmt::format("{:<4}not verified\n", name);
  std::vector<std::string> verdicts;
  std::string findings;
  for (const verify::Check check : verify::kChecks) {
    const verify::Result& result = arm.verdict[check];
    verdicts.push_back(
        result.mismatches == 0
            ? fmt::format("{} equal ({})", verify::name_of(check), format_bytes(result.bytes))
            : fmt::format("{} DIFFERS ({} mismatches)", verify::name_of(check), result.mismatches));
    for (std::size_t i = 0; i < std::min(kShownFindings, result.findings.size()); ++i) {
      const verify::Finding& finding = result.findings[i];
      findings += wrapped(fmt::format("    {}: {} {} at byte {}: expected {}, got {}; {} in all",
                                      verify::name_of(check), finding.tensor, finding.what, finding.index,
                                      finding.expected, finding.got, finding.count),
                          6);
    }
    if (result.findings.size() > kShownFindings) {
      findings += fmt::format("    {}: and {} more tensors\n", verify::name_of(check),
                              result.findings.size() - kShownFindings);
    }
  }
  return wrapped(fmt::format("{:<4}{} {}: {}", name, arm.verified_refits,
                             arm.verified_refits == 1 ? "refit" : "refits", fmt::join(verdicts, ", ")),
                 4) +
         findings;
}

}  // namespace

std::string outcome_section(const Report& report) {
  const run::BenchResult& result = *report.result;
  const auto traffic = on_ranks(report) ? traffic_between_ranks : traffic_lines;
  return traffic(report, "off", result.control) + traffic(report, "on", result.treatment) + "\nverify\n" +
         verify_lines("off", result.control) + verify_lines("on", result.treatment);
}

}  // namespace refit::report
