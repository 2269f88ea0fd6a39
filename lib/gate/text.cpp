// Cells and clauses that every rendering shares.
#include "gate/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "refit/base/bytes.hpp"
#include "refit/base/printable.hpp"

namespace refit::gate {
namespace {

/// The largest double that 64 bits hold; the one after it is no number of bytes.
constexpr double kMostBytes = 18446744073709549568.0;

std::string limited_value(const std::string& what, double value) {
  if (what == "seconds") return duration(value);
  if (what == "peak_extra_bytes" || what == "wire_bytes")
    return format_bytes(static_cast<std::uint64_t>(std::min(value, kMostBytes)));
  return fmt::format("{:.4g}", value);
}

Row row_of(const PhaseResult& phase) {
  const Decision& decision = phase.decision;
  Row row{.verdict = decision.verdict, .name = title(phase.arm, phase.phase)};
  row.reason = phase.reason;
  if (decision.candidate.samples == 0) return row;
  row.before = duration(decision.baseline.center);
  row.after = duration(decision.candidate.center);
  if (decision.value) row.change = change(*decision.value);
  if (decision.ci95)
    row.interval = fmt::format("{} to {}", change(decision.ci95->low), change(decision.ci95->high));
  row.allowed = share(phase.allowed);
  return row;
}

Row row_of(const LimitResult& limit) {
  const Decision& decision = limit.decision;
  Row row{.verdict = decision.verdict, .name = limit.what};
  if (!limit.arm.empty()) row.name += " " + printable(limit.arm);
  if (!limit.phase.empty()) row.name += " of " + printable(limit.phase);
  row.before = limited_value(limit.what, limit.limit);
  if (decision.value) row.after = limited_value(limit.what, *decision.value);
  if (decision.ci95) {
    row.interval = fmt::format("{} to {}", limited_value(limit.what, decision.ci95->low),
                               limited_value(limit.what, decision.ci95->high));
  }
  row.reason = limit.reason;
  row.limit = true;
  return row;
}

}  // namespace

std::string duration(double seconds) {
  if (seconds == 0) return "0";
  constexpr std::array units = {std::pair{1.0, "s"}, std::pair{1e-3, "ms"}, std::pair{1e-6, "us"}};
  for (const auto& [unit, name] : units) {
    if (seconds >= 0.99995 * unit) {
      const double value = seconds / unit;
      const int digits = value >= 999.95 ? 0 : value >= 99.995 ? 1 : value >= 9.9995 ? 2 : 3;
      return fmt::format("{:.{}f} {}", value, digits, name);
    }
  }
  return fmt::format("{:.4g} ns", seconds * 1e9);
}

std::string change(double ratio) {
  return fmt::format("{:+.1f} %", 100 * (ratio - 1));
}

std::string share(double value) {
  return value >= 10 ? "over 1000 %" : fmt::format("{:.3g} %", 100 * value);
}

std::string title(const std::string& arm, const std::string& phase) {
  return printable(arm.empty() ? phase : arm + ": " + phase);
}

std::vector<Row> rows(const Report& report) {
  std::vector<Row> rows;
  for (const PhaseResult& phase : report.phases) rows.push_back(row_of(phase));
  for (const LimitResult& limit : report.checked) rows.push_back(row_of(limit));
  return rows;
}

std::string files(const std::vector<std::string>& names) {
  const std::string list = printable(fmt::format("{}", fmt::join(names, ", ")));
  return names.size() == 1 ? list : fmt::format("{} files: {}", names.size(), list);
}

std::vector<Remark> remarks(const Report& report) {
  std::vector<Remark> remarks;
  for (const Difference& d : report.differences) {
    remarks.push_back({d.allowed ? Remark::Kind::note : Remark::Kind::difference,
                       printable(fmt::format("{} differs{}: {} and {}", d.field,
                                             d.allowed ? ", as allowed" : "", d.baseline, d.candidate))});
  }
  for (const std::string& fault : report.faults) remarks.push_back({Remark::Kind::fault, printable(fault)});
  for (const std::string& note : report.notes) remarks.push_back({Remark::Kind::note, printable(note)});
  return remarks;
}

std::string_view label(Remark::Kind kind) noexcept {
  switch (kind) {
    case Remark::Kind::difference:
      return name_of(Verdict::mismatch);
    case Remark::Kind::fault:
      return name_of(Verdict::invalid);
    case Remark::Kind::note:
      break;
  }
  return "note";
}

std::string summary(const Report& report) {
  const std::vector<Row> all = rows(report);
  const auto number = [&](Verdict verdict) {
    return std::count_if(all.begin(), all.end(), [&](const Row& row) { return row.verdict == verdict; });
  };
  const std::string head = fmt::format("{}: ", name_of(report.verdict));
  switch (report.verdict) {
    case Verdict::mismatch:
      return head + "these are results of different things; --allow names what may differ";
    case Verdict::invalid:
      return head + fmt::format("{} reason{} not to compare", report.faults.size(),
                                report.faults.size() == 1 ? "" : "s");
    case Verdict::regression:
      return head + fmt::format("{} of {} slower than allowed or beyond a limit", number(report.verdict),
                                all.size());
    case Verdict::ambiguous:
      return head + fmt::format("{} of {} too noisy to say", number(report.verdict), all.size());
    case Verdict::improved:
      return head +
             fmt::format("{} of {} faster, none slower than allowed", number(report.verdict), all.size());
    case Verdict::pass:
      return head + fmt::format("none of {} slower than allowed or beyond a limit", all.size());
  }
  return head;
}

}  // namespace refit::gate
