// One scale of seconds for all panels, so that they can be compared.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "page/axis_names.hpp"
#include "page/html.hpp"
#include "page/marks.hpp"
#include "page/scale.hpp"
#include "page/sweep.hpp"
#include "page/units.hpp"

namespace refit::page {
namespace {

constexpr std::size_t kMostPanels = 64;
constexpr double kCurveTop = 12;

/// What all panels have in common.
struct Frame {
  const Sweep& sweep;
  Scale seconds;
  std::vector<double> places;  ///< of the first axis' values, percent
  std::string names;           ///< of these values, below a panel
  int height;
  [[nodiscard]] double bottom() const { return height - 10; }
  [[nodiscard]] double y(double value) const {
    return bottom() - (bottom() - kCurveTop) * seconds.share(value);
  }
  /// Curves go over numbers; names have nothing between them.
  [[nodiscard]] bool connected() const { return !sweep.axes.front().numbers.empty(); }
};

using PanelPoints = std::vector<const SweepPoint*>;  // in the order of the first axis

std::optional<Scale> scale_of_seconds(const Sweep& sweep) {
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const SweepPoint& point : sweep.points) {
    for (const auto& times : point.arms) {
      if (!times) continue;
      least = std::min({least, times->low, point.floor.value_or(times->low)});
      most = std::max({most, times->high, point.floor.value_or(0)});
    }
  }
  if (!(most > 0)) return std::nullopt;
  Scale scale(least, most, 0);
  return scale.logarithmic() ? Scale(least / 1.2, most * 1.2, 0) : Scale(least, most * 1.08, 0);
}

std::vector<double> places_of(const SweepAxis& axis) {
  std::vector<double> places;
  const std::size_t n = axis.values.size();
  if (!axis.numbers.empty()) {
    const Scale scale(axis.numbers.front(), axis.numbers.back(), 0);
    if (scale.logarithmic()) {
      for (const double number : axis.numbers) places.push_back(5 + 90 * scale.share(number));
      return places;
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    places.push_back(100 * (static_cast<double>(i) + 0.5) / static_cast<double>(n));
  }
  return places;
}

/// The arms stand a little apart where they meet.
double x_of_arm(double place, std::size_t arm) {
  return place + (arm == 0 ? -0.5 : 0.5);
}

std::string arm_marks(const Frame& frame, const PanelPoints& panel, std::size_t arm) {
  std::string lines, points;
  const SweepPoint* before = nullptr;
  for (const SweepPoint* point : panel) {
    const auto& times = point->arms[arm];
    if (!times) {
      before = nullptr;
      continue;
    }
    const double x = x_of_arm(frame.places[point->at[0]], arm), y = frame.y(times->median);
    if (frame.connected() && before != nullptr && before->at[0] + 1 == point->at[0]) {
      lines += stroke(x_of_arm(frame.places[before->at[0]], arm), frame.y(before->arms[arm]->median), x, y,
                      fmt::format("curve {}", kArms[arm]));
    }
    points += reach(x, frame.y(times->high), frame.y(times->low), kArms[arm]);
    if (point->wrong) points += ring(x, y);
    points += page::point(arm, x, y, fmt::format("point {}", kArms[arm]),
                          fmt::format("{}, {}: {} ({} to {}){}", settings_of(frame.sweep, *point), kArms[arm],
                                      duration(times->median), duration(times->low), duration(times->high),
                                      point->wrong ? ", and its bytes differ" : ""));
    before = point;
  }
  return lines + points;
}

std::string floor_marks(const Frame& frame, const PanelPoints& panel) {
  std::string html;
  const double width = 100.0 / static_cast<double>(std::max<std::size_t>(frame.places.size(), 4));
  const SweepPoint* before = nullptr;
  for (const SweepPoint* point : panel) {
    if (!point->floor) {
      before = nullptr;
      continue;
    }
    const double x = frame.places[point->at[0]], y = frame.y(*point->floor);
    if (!frame.connected() || panel.size() == 1) {
      html += stroke(std::max(0.0, x - width / 3), y, std::min(100.0, x + width / 3), y, "floor");
    } else if (before != nullptr && before->at[0] + 1 == point->at[0]) {
      html += stroke(frame.places[before->at[0]], frame.y(*before->floor), x, y, "floor");
    }
    before = point;
  }
  return html;
}

std::string failed_marks(const Frame& frame, const PanelPoints& panel) {
  std::string html;
  for (const SweepPoint* point : panel) {
    if (point->message.empty()) continue;
    html += cross(frame.places[point->at[0]], frame.bottom() - 8,
                  fmt::format("{}: {}, {}", settings_of(frame.sweep, *point), text(point->status),
                              shortened(point->message, 400)));
  }
  return html;
}

std::string panel_figure(const Frame& frame, const PanelPoints& panel) {
  const std::vector<double> marks = frame.seconds.marks(5);
  const Unit unit = unit_for(marks.empty() ? 0 : marks.back());
  std::string numbers, lines;
  for (const double mark : marks) {
    const double y = frame.y(mark);
    numbers += fmt::format(
        "<text x=\"100%\" y=\"{:.1f}\" dx=\"-6\" dy=\"4\" class=\"t small\" text-anchor=\"end\">"
        "{:g}\u00a0{}</text>",
        y, mark * unit.factor, unit.name);
    lines += stroke(0, y, 100, y, "grid");
  }
  const std::string others = settings_of(frame.sweep, *panel.front(), 1);
  const std::string heading = others.empty() ? "" : "<p class=\"arm\"><strong>" + others + "</strong></p>\n";
  std::string body = lines + floor_marks(frame, panel);
  for (std::size_t arm = 0; arm < kArms.size(); ++arm) body += arm_marks(frame, panel, arm);
  return "<figure class=\"panel\">" + heading + "<div class=\"plot\">" +
         picture(frame.height, "seconds", numbers) +
         picture(frame.height,
                 "medians of both arms over " + shortened(frame.sweep.axes.front().key, 40) +
                     (others.empty() ? "" : ", " + others),
                 body + failed_marks(frame, panel)) +
         "<div></div>" + frame.names + "</div></figure>\n";
}

/// What did not run and why, each reason once.
std::string reasons(const Sweep& sweep) {
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> points;
  for (const SweepPoint& point : sweep.points) {
    if (!point.message.empty()) points[{point.status, point.message}].push_back(settings_of(sweep, point));
  }
  std::string items;
  for (const auto& [why, where] : points) {
    constexpr std::size_t kMostNamed = 8;
    std::string list;
    for (std::size_t i = 0; i < std::min(kMostNamed, where.size()); ++i)
      list += (i == 0 ? "" : "; ") + where[i];
    if (where.size() > kMostNamed) list += fmt::format("; and {} more", where.size() - kMostNamed);
    items += fmt::format("<li><strong class=\"wrong\">\u2715 {}</strong> at {}: {}</li>\n", text(why.first),
                         list, shortened(why.second, 1000));
  }
  return items.empty() ? "" : "<ul class=\"reasons\">\n" + items + "</ul>\n";
}

std::string curve_legend(bool failed) {
  const auto item = [](const std::string& body, const char* words) {
    return "<li><svg width=\"22\" height=\"14\" aria-hidden=\"true\">" + body + "</svg> " + words + "</li>";
  };
  return "<ul class=\"legend flush\">" + item(point(0, 50, 7, "point control", "control"), "control") +
         item(point(1, 50, 7, "point treatment", "treatment"), "treatment") +
         item(stroke(0, 7, 100, 7, "floor"), "floor: a plain copy of the same bytes") +
         (failed ? item(cross(50, 7, "failed"), "did not run to its end") : "") + "</ul>\n";
}

std::string caption(const Frame& frame, std::size_t panels) {
  std::string words = "Medians of transfer_and_update_weights, from the fastest to the slowest refit.";
  if (frame.seconds.logarithmic()) words += " The axis of seconds is logarithmic.";
  if (panels > 1) words += " All panels have one scale.";
  if (panels > kMostPanels) {
    words +=
        fmt::format(" These are the first {} of {} panels; the table has every point.", kMostPanels, panels);
  }
  return words;
}

}  // namespace

std::string sweep_curve_section(const Sweep& sweep) {
  const std::optional<Scale> seconds = scale_of_seconds(sweep);
  const std::string why = reasons(sweep);
  if (!seconds) return why.empty() ? "" : section("curve", "What did not run", why);
  std::map<std::vector<std::size_t>, PanelPoints> panels;
  for (const SweepPoint& point : sweep.points)
    panels[{point.at.begin() + 1, point.at.end()}].push_back(&point);
  const SweepAxis& axis = sweep.axes.front();
  const std::vector<double> places = places_of(axis);
  const Frame frame{sweep, *seconds, places, axis_names(axis.key, axis.values, places, panels.size() > 1),
                    panels.size() > 1 ? 190 : 280};
  std::string html;
  std::size_t drawn = 0;
  for (auto& [at, panel] : panels) {
    if (drawn++ == kMostPanels) break;
    std::stable_sort(panel.begin(), panel.end(),
                     [](const SweepPoint* a, const SweepPoint* b) { return a->at[0] < b->at[0]; });
    html += panel_figure(frame, panel);
  }
  if (panels.size() > 1) html = "<div class=\"panels\">\n" + html + "</div>\n";
  return section("curve", "Transfer and update of the weights over " + shortened(axis.key, 40),
                 curve_legend(!why.empty()) + html + "<p class=\"small\">" + caption(frame, panels.size()) +
                     "</p>\n" + why);
}

}  // namespace refit::page
