// The same for people.
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "project/phases.hpp"
#include "refit/project/project.hpp"
#include "refit/project/validation.hpp"

namespace refit::project {
namespace {

std::string interval(const Seconds& seconds) {
  if (!seconds.low_s || !seconds.high_s) return "";
  return fmt::format("{:.3g} .. {:.3g}", *seconds.low_s, *seconds.high_s);
}

void add_phase(std::string& text, std::string_view name, const Seconds& off, const Seconds& on,
               const scenario::Scenario& scenario) {
  text += fmt::format("  {:<51} {:>9.4g} {:>9.4g} {:>+7.1f} %  {:<17} {:<17}", name, off.s, on.s,
                      (on.s / off.s - 1) * 100, interval(off), interval(on));
  const auto known = scenario.phases.find(std::string(name));
  if (known != scenario.phases.end() && known->second.control_s && known->second.treatment_s) {
    text += fmt::format(" {:.4g} {:.4g}", *known->second.control_s, *known->second.treatment_s);
  }
  while (text.back() == ' ') text.pop_back();
  text += '\n';
}

void add_path(std::string& text, std::string_view arm, const ProjectedArm& projected) {
  std::vector<std::pair<double, std::string>> parts;
  for (const auto& [part, seconds] : projected.critical) parts.emplace_back(seconds, part);
  std::sort(parts.rbegin(), parts.rend());
  text += fmt::format("  {:<4}", arm);
  for (const auto& [seconds, part] : parts) {
    if (seconds >= 0.005 * projected.transfer.s)
      text += fmt::format(" {} {:.0f} %", part, seconds / projected.transfer.s * 100);
  }
  text +=
      fmt::format("; floor {:.3g} s, {:.3g} x", projected.floor_s, projected.transfer.s / projected.floor_s);
  if (projected.slowest_rank) text += fmt::format(", slowest rank {}", *projected.slowest_rank);
  text += '\n';
}

}  // namespace

std::string to_text(const Projection& projection, const scenario::Scenario& scenario) {
  std::string text = fmt::format("PROJECTED, nothing of this ran: {} on {} with {}\n", scenario.name,
                                 projection.platform.title, projection.stack.title);
  text += fmt::format("  {}\n", projection.cluster);
  text += fmt::format("  {:<51} {:>9} {:>9} {:>9}  {:<17} {:<17} {}\n", "", "off s", "on s", "change",
                      "8 of 10, off", "8 of 10, on", "published");
  add_phase(text, kTransfer, projection.control.transfer, projection.treatment.transfer, scenario);
  add_phase(text, kPrepare, projection.control.prepare, projection.treatment.prepare, scenario);
  if (projection.control.step && projection.treatment.step) {
    add_phase(text, kStep, *projection.control.step, *projection.treatment.step, scenario);
  }
  for (const auto& [phase, seconds] : scenario.phases) {
    const bool projected = phase == kTransfer || phase == kPrepare || phase == kStep;
    if (projected || !seconds.control_s || !seconds.treatment_s) continue;
    text += fmt::format("  {:<51} {:>9} {:>9} {:>+7.1f} %  {:<17} {:<17} {:.4g} {:.4g}\n", phase, "-", "-",
                        (*seconds.treatment_s / *seconds.control_s - 1) * 100, "", "", *seconds.control_s,
                        *seconds.treatment_s);
  }
  if (projection.control.reference_swap_s > 0) {
    text += fmt::format("  {:<51} {:>9.4g} {:>9.4g}\n", "policy_and_reference_logprobs: reference_swap",
                        projection.control.reference_swap_s, projection.treatment.reference_swap_s);
  }
  text += "  where the transfer's time goes (critical path):\n";
  add_path(text, "off", projection.control);
  add_path(text, "on", projection.treatment);
  for (const std::string& sentence : projection.assumed) text += fmt::format("  assumed: {}\n", sentence);
  return text;
}

std::string to_text(const Validation& validation) {
  std::string text = "Published tables, each projected by a fit to all others:\n";
  text += fmt::format("  {:<51} {:<4} {:>9} {:>9} {:>8}  {:>9}\n", "", "", "published", "projected", "error",
                      "fitted");
  std::string table;
  for (const Row& row : validation.rows) {
    if (row.table != table) text += fmt::format("{}\n", table = row.table);
    text += fmt::format("  {:<51} {:<4} {:>9.4g} {:>9.4g} {:>+6.1f} %  {:>9.4g}\n", row.phase,
                        row.control ? "off" : "on", row.published_s, row.projected_s, row.error() * 100,
                        row.fitted_s);
  }
  text += "From off to on:\n";
  table.clear();
  for (const Change& change : validation.changes) {
    if (change.table != table) text += fmt::format("{}\n", table = change.table);
    text += fmt::format("  {:<56} {:>+7.1f} % {:>+7.1f} % {:>+6.1f} points\n", change.phase,
                        change.published * 100, change.projected * 100, change.difference() * 100);
  }
  text += "Measured by this project, with its own stack (* its costs were read off this run):\n";
  for (const MeasuredRow& row : validation.measured) {
    text += fmt::format("  {}{:<60} {:>8.4g} {:>8.4g} {:>+6.1f} %\n", row.fitted ? "* " : "  ", row.what,
                        row.measured_s, row.projected_s, row.error() * 100);
  }
  const auto against = [&](std::string_view what, double value, double goal, std::string_view unit) {
    text += fmt::format("{}: {:.1f} {}, goal {:.0f}: {}\n", what, value * 100, unit, goal * 100,
                        value <= goal ? "reached" : "not reached");
  };
  against("median error of published times", validation.median_error, Validation::kMedianGoal, "%");
  against("worst error of published times", validation.worst_error, Validation::kWorstGoal, "%");
  against("worst change", validation.worst_change, Validation::kChangeGoal, "points");
  against("worst error of own measurements", validation.worst_measured, Validation::kMeasuredGoal, "%");
  return text;
}

}  // namespace refit::project
