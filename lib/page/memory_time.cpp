// A line of steps for each process: when memory is taken, and when it is given back.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "page/bars.hpp"
#include "page/html.hpp"
#include "page/sections.hpp"
#include "page/units.hpp"
#include "refit/base/bytes.hpp"

namespace refit::page {
namespace {

constexpr int kHeldHeight = 150;
constexpr double kHeldTop = 10, kHeldBottom = kHeldHeight - 1;
constexpr std::array<const char*, 2> kRoles = {"trainer", "generator"};

double held_y(double bytes, double most) {
  return kHeldBottom - (kHeldBottom - kHeldTop) * bytes / most;
}

std::string held_line(const MemorySteps& steps, double end, double most, const std::string& kind) {
  if (steps.empty()) return "";
  std::string path;
  // Of steps in one place, which no screen tells apart, the highest shows, and the last goes on.
  for (std::size_t i = 0; i < steps.size();) {
    const auto place = [&](std::size_t step) {
      return end > 0 ? std::round(kStretched * steps[step].first / end) : 0;
    };
    const double x = place(i);
    std::uint64_t high = 0;
    while (i < steps.size() && place(i) == x) high = std::max(high, steps[i++].second);
    const double top = held_y(static_cast<double>(high), most);
    path += path.empty() ? fmt::format("M{:.0f} {:.1f}", x, top) : fmt::format("H{:.0f}V{:.1f}", x, top);
    if (steps[i - 1].second != high)
      path += fmt::format("V{:.1f}", held_y(static_cast<double>(steps[i - 1].second), most));
  }
  return fmt::format("<path class=\"held-line {}\" d=\"{}\"/>", kind, path);
}

std::uint64_t most_of(const MemorySteps& steps) {
  std::uint64_t most = 0;
  for (const auto& step : steps) most = std::max(most, step.second);
  return most;
}

std::string held_panel(const Arm& arm, std::size_t index, double most) {
  double end = 0;
  std::string lines, words, numbers;
  for (const double mark : ticks(most, 4)) {
    const double y = held_y(mark, most);
    lines += fmt::format("<path class=\"grid\" d=\"M0 {0:.1f}H{1}\"/>", y, kStretched);
    numbers += fmt::format(
        "<text x=\"100%\" y=\"{:.1f}\" dx=\"-6\" dy=\"4\" class=\"t small\" text-anchor=\"end\">{}</text>", y,
        format_bytes(static_cast<std::uint64_t>(mark)));
  }
  for (const MemorySteps& steps : arm.memory) end = std::max(end, steps.empty() ? 0 : steps.back().first);
  for (std::size_t role = 0; role < kRoles.size(); ++role) {
    lines += held_line(arm.memory[role], end, most, fmt::format("{} {}", kArms[index], kRoles[role]));
    words +=
        fmt::format("{} {} {}", role == 0 ? "" : ",", kRoles[role], format_bytes(most_of(arm.memory[role])));
  }
  return fmt::format(
      "<figure class=\"panel\"><p class=\"arm\"><span class=\"dot {0}\"></span> <strong>{0}</strong>{1}</p>\n"
      "<div class=\"plot\">{2}{3}<div></div>{4}</div></figure>\n",
      kArms[index], words, picture(kHeldHeight, "bytes", numbers),
      stretched(kHeldHeight, fmt::format("memory of {} over one refit, at most{}", kArms[index], words),
                lines),
      time_marks(end, 4));
}

std::string held_legend() {
  std::string items;
  for (const char* role : kRoles) {
    items += fmt::format(
        "<li><svg width=\"30\" height=\"14\" aria-hidden=\"true\"><path class=\"held-line treatment {0}\" "
        "d=\"M0 7H30\"/></svg> {0}</li>",
        role);
  }
  return "<ul class=\"legend flush\">" + items + "</ul>\n";
}

}  // namespace

MemorySteps read_memory_steps(const JsonNode& node) {
  MemorySteps steps;
  for (const JsonNode& element : node.elements()) {
    const std::vector<JsonNode> pair = element.elements();
    if (pair.size() != 2) element.fail("has to be seconds and bytes");
    // Time does not go back, and a line that did could not be drawn.
    steps.emplace_back(std::max(steps.empty() ? 0 : steps.back().first, read_number(pair[0])),
                       pair[1].count());
  }
  return steps;
}

std::string memory_over_time(const Result& result) {
  std::uint64_t most = 0;
  for (const Arm& arm : result.arms) {
    for (const MemorySteps& steps : arm.memory) most = std::max(most, most_of(steps));
  }
  if (most == 0) return "";
  std::string panels;
  for (std::size_t arm = 0; arm < result.arms.size(); ++arm) {
    panels += held_panel(result.arms[arm], arm, static_cast<double>(most));
  }
  return "<h3>Over the time of a refit</h3>\n" + held_legend() + "<div class=\"panels\">\n" + panels +
         "</div>\n<p class=\"small\">Held by each process beside sources and parameters in the last measured "
         "refit, at most as much as stands beside its name; both arms on one scale of bytes, each on its own "
         "of "
         "time. What persists between refits is held throughout.</p>\n";
}

}  // namespace refit::page
