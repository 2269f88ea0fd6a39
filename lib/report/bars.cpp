// Two lines a phase, on one scale for all: what is longer took longer.
#include "refit/report/bars.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "report/figures.hpp"
#include "report/text.hpp"

namespace refit::report {
namespace {

constexpr std::size_t kMostColumns = 100;
constexpr std::size_t kBeside = 30;  // "  off " before a bar, seconds and change after it
// Blue and yellow: apart for colour-blind eyes, readable on black and on white.
constexpr std::string_view kOff = "\x1b[34m", kOn = "\x1b[33m", kPlain = "\x1b[0m";

struct Phase {
  std::string_view name;
  double off = 0;
  std::optional<double> on, change;
};

std::vector<Phase> moving_phases(const Figures& figures) {
  std::vector<Phase> phases;
  for (std::size_t i = 0; i < figures.control.phases.size(); ++i) {
    const auto& [key, off] = figures.control.phases[i];
    const PhaseFigures& on = figures.treatment.phases[i].second;
    if (!key.starts_with("prepare_for_generation/") || !off.summary) continue;
    if (off.moved_nothing && on.moved_nothing) continue;
    phases.push_back({key, off.summary->median, on.summary ? std::optional(on.summary->median) : std::nullopt,
                      figures.comparison[i].second.change});
  }
  return phases;
}

/// `eighths` of a column.
std::string drawn(std::size_t eighths, bool unicode) {
  static constexpr std::array<std::string_view, 8> kParts = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  if (!unicode) return std::string((eighths + 4) / 8, '#');
  std::string bar;
  for (std::size_t i = 0; i < eighths / 8; ++i) bar += "█";
  return bar.append(kParts[eighths % 8]);
}

std::string line(std::string_view arm, double value, double longest, const std::string& change,
                 const BarStyle& style) {
  const std::size_t columns = std::min(style.columns, kMostColumns) - kBeside;
  const double share = longest > 0 ? value / longest : 0;
  // What took time is seen, however little.
  const auto eighths = std::max(
      std::size_t{4}, static_cast<std::size_t>(std::lround(share * 8 * static_cast<double>(columns))));
  const std::string bar = drawn(eighths, style.unicode);
  const std::string colour(style.colour ? (arm == "off" ? kOff : kOn) : "");
  return fmt::format("  {:<4}{}{}{}  {} s{}\n", arm, colour, bar, style.colour ? kPlain : "", seconds(value),
                     change.empty() ? "" : "  " + change);
}

}  // namespace

std::string to_bars(const Report& report, const BarStyle& style) {
  if (!report.result || style.columns < kLeastBarColumns) return "";
  const Figures figures = derive(report);
  const std::vector<Phase> phases = moving_phases(figures);
  double longest = 0;
  for (const Phase& phase : phases) longest = std::max({longest, phase.off, phase.on.value_or(0)});
  std::string text;
  for (const Phase& phase : phases) {
    text += fmt::format("{}\n", phase.name);
    text += line("off", phase.off, longest, "", style);
    if (phase.on) text += line("on", *phase.on, longest, percent(phase.change, true), style);
  }
  return text.empty() ? "" : "\n" + text;
}

}  // namespace refit::report
