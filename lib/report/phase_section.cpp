// NeMo-RL's timers: measured, stood in for, published or neither.
#include <fmt/format.h>

#include "report/sections.hpp"
#include "report/text.hpp"

namespace refit::report {
namespace {

std::optional<double> median(const PhaseFigures& phase) {
  return phase.summary ? std::optional(phase.summary->median) : std::nullopt;
}

std::string spread(const PhaseFigures& phase) {
  return times(phase.summary ? std::optional(100 * phase.summary->spread) : std::nullopt);
}

std::string phase_table(const Figures& figures) {
  std::string text = fmt::format("{:<30}{:>9} {:>9} {:>9} {:>11} {:>12} {:>15}\n", "phase", "off s", "on s",
                                 "change", "spread %", "x floor", "published s");
  std::string group;  // the name above indented rows
  for (std::size_t i = 0; i < figures.control.phases.size(); ++i) {
    const auto& [key, off] = figures.control.phases[i];
    const PhaseFigures& on = figures.treatment.phases[i].second;
    if (off.moved_nothing && on.moved_nothing) continue;
    const std::size_t slash = key.find('/');
    const std::string first = key.substr(0, slash);
    if (slash != key.npos && first != group) text += first + "\n";
    group = first;
    std::string name = slash == key.npos ? key : "  " + key.substr(slash + 1);
    if (off.source == Source::stand_in || on.source == Source::stand_in) name += " *";
    const bool timed = off.summary && on.summary;
    text += fmt::format("{:<30}{:>9} {:>9} {:>9} {:>11} {:>12} {:>15}\n", name, seconds(median(off)),
                        seconds(median(on)),
                        percent(timed ? figures.comparison[i].second.change : std::nullopt, true),
                        pair(spread(off), spread(on)), pair(times(off.x_floor), times(on.x_floor)),
                        arrow(quoted(off.published), quoted(on.published)));
  }
  return text;
}

std::string direct_floor_line(const Figures& figures) {
  for (std::size_t i = 0; i < figures.control.phases.size(); ++i) {
    const PhaseFigures& off = figures.control.phases[i].second;
    const PhaseFigures& on = figures.treatment.phases[i].second;
    if (!off.x_direct_floor && !on.x_direct_floor) continue;
    return wrapped(
        fmt::format("Staged transfer over the floor of a direct one: {} off, {} on; over the floor of "
                    "the bytes that its own stages move: {} off, {} on.",
                    times(off.x_direct_floor), times(on.x_direct_floor), times(off.x_own_floor),
                    times(on.x_own_floor)),
        2);
  }
  return "";
}

std::string extrapolated_lines(const Report& report, const Figures& figures) {
  if (!report.replay || !report.replay->cut()) return "";
  std::string text = wrapped(
      fmt::format("extrapolated to the whole model: medians x {:.2f} (its floor bytes over those replayed)",
                  report.replay->extrapolation()),
      2);
  for (std::size_t i = 0; i < figures.control.phases.size(); ++i) {
    const auto& [key, off] = figures.control.phases[i];
    const PhaseFigures& on = figures.treatment.phases[i].second;
    if ((!off.extrapolated && !on.extrapolated) || (off.moved_nothing && on.moved_nothing)) continue;
    text += fmt::format("  {:<52}{:>10} {:>10}\n", key, seconds(off.extrapolated), seconds(on.extrapolated));
  }
  return text + "\n";
}

}  // namespace

std::string phase_section(const Report& report, const Figures& figures) {
  return phase_table(figures) + direct_floor_line(figures) + "\n" + extrapolated_lines(report, figures);
}

}  // namespace refit::report
