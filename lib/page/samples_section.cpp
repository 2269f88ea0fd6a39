// Drift, outliers and two levels show in single refits alone.
#include <fmt/format.h>

#include <algorithm>

#include "page/html.hpp"
#include "page/marks.hpp"
#include "page/sections.hpp"
#include "page/units.hpp"
#include "refit/time/statistics.hpp"

namespace refit::page {
namespace {

constexpr int kSamplesHeight = 190;
constexpr double kTop = 12, kBottom = kSamplesHeight - 10;
constexpr std::size_t kMostPoints = 400;  ///< more refits than this share points

struct Panel {
  const char* arm;
  const std::vector<double>*warmup, *samples;
  double top;  ///< seconds at the upper end of the axis
};

double y_of(double seconds, double top) {
  return top > 0 ? kBottom - (kBottom - kTop) * std::min(1.0, seconds / top) : kBottom;
}

/// Where point `i` of `n` stands: warm-up first.
double x_of(double i, std::size_t n) {
  return 1.5 + 97 * (i + 0.5) / static_cast<double>(n);
}

std::string grouped_points(const Panel& panel, std::size_t n, std::size_t arm) {
  const std::vector<double>& samples = *panel.samples;
  const std::size_t size = (samples.size() + kMostPoints - 1) / kMostPoints;
  std::string html;
  for (std::size_t first = 0; first < samples.size(); first += size) {
    const std::size_t count = std::min(size, samples.size() - first);
    const Summary group = summarize(std::span(samples).subspan(first, count));
    const double middle =
        static_cast<double>(panel.warmup->size() + first) + static_cast<double>(count - 1) / 2;
    const double x = x_of(middle, n);
    if (count > 1) {
      html += reach(x, y_of(group.max, panel.top), y_of(group.min, panel.top), panel.arm);
    }
    const std::string steps = count == 1 ? fmt::format("step {}", first + 1)
                                         : fmt::format("steps {} to {}", first + 1, first + count);
    html += point(arm, x, y_of(group.median, panel.top), fmt::format("point {}", panel.arm),
                  fmt::format("{}: {}", steps, duration(group.median)));
  }
  return html;
}

std::string warmup_points(const Panel& panel, std::size_t n, std::size_t arm) {
  std::string html;
  for (std::size_t i = 0; i < panel.warmup->size(); ++i) {
    const double seconds = (*panel.warmup)[i];
    html += point(arm, x_of(static_cast<double>(i), n), y_of(seconds, panel.top),
                  fmt::format("point warmup {}", panel.arm), fmt::format("warm-up: {}", duration(seconds)));
  }
  return html;
}

std::string plot(const Panel& panel, std::size_t arm) {
  const Unit unit = unit_for(panel.top);
  std::string marks, lines;
  for (const double mark : ticks(panel.top * unit.factor, 4)) {
    const double y = y_of(mark / unit.factor, panel.top);
    marks += fmt::format(
        "<text x=\"100%\" y=\"{:.1f}\" dx=\"-6\" dy=\"4\" class=\"t small\" text-anchor=\"end\">"
        "{:g}\u00a0{}</text>",
        y, mark, unit.name);
    lines += fmt::format("<line x1=\"0\" x2=\"100%\" y1=\"{0:.1f}\" y2=\"{0:.1f}\" class=\"grid\"/>", y);
  }
  const double median = summarize(*panel.samples).median, y = y_of(median, panel.top);
  lines += fmt::format("<line x1=\"0\" x2=\"100%\" y1=\"{0:.1f}\" y2=\"{0:.1f}\" class=\"median {1}\"/>", y,
                       panel.arm);
  const std::size_t n = panel.warmup->size() + panel.samples->size();
  return "<div class=\"plot\">" + picture(kSamplesHeight, "seconds", marks) +
         picture(kSamplesHeight, fmt::format("refits of {} in the order in which they ran", panel.arm),
                 lines + warmup_points(panel, n, arm) + grouped_points(panel, n, arm)) +
         "</div>\n";
}

std::string panel_html(const Panel& panel, std::size_t arm) {
  return fmt::format(
      "<figure class=\"panel\"><p class=\"arm\"><span class=\"dot {0}\"></span> <strong>{0}</strong> {1} "
      "refits, {2} to "
      "{3}</p>\n{4}</figure>\n",
      panel.arm, grouped(panel.samples->size()),
      duration(*std::min_element(panel.samples->begin(), panel.samples->end())),
      duration(*std::max_element(panel.samples->begin(), panel.samples->end())), plot(panel, arm));
}

double largest(const Panel& panel) {
  double most = 0;
  for (const auto* values : {panel.warmup, panel.samples}) {
    for (const double value : *values) most = std::max(most, value);
  }
  return most;
}

}  // namespace

std::string samples_section(const Result& result) {
  if (!result.measured()) return "";
  std::vector<Panel> panels;
  for (std::size_t arm = 0; arm < result.arms.size(); ++arm) {
    const Phase* transfer = find_phase(result.arms[arm], kTransfer);
    if (transfer == nullptr || transfer->samples.empty()) return "";
    panels.push_back({kArms[arm], &result.arms[arm].warmup, &transfer->samples, 0});
  }
  constexpr double kAlike = 3;  // times: arms further apart have a scale each
  const double a = largest(panels[0]), b = largest(panels[1]);
  const bool one_scale = std::max(a, b) <= kAlike * std::min(a, b);
  panels[0].top = 1.08 * (one_scale ? std::max(a, b) : a);
  panels[1].top = 1.08 * (one_scale ? std::max(a, b) : b);
  const bool warmup = !panels[0].warmup->empty() || !panels[1].warmup->empty();
  return section(
      "steps", "Every refit",
      "<div class=\"panels\">\n" + panel_html(panels[0], 0) + panel_html(panels[1], 1) + "</div>\n" +
          fmt::format("<p class=\"small\">transfer_and_update_weights in the order in which it ran, {}; the "
                      "dashed line is the median{}.</p>\n",
                      one_scale ? "both on one scale" : "each on a scale of its own",
                      warmup ? ", hollow points are to warm up and do not count" : ""));
}

}  // namespace refit::page
