// Positions are shares of the width, so that a bar is as wide as the screen or the paper.
#include "page/bars.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "page/html.hpp"
#include "page/result.hpp"

namespace refit::page {
namespace {

constexpr double kCharacter = 7;       // pixels of 12-pixel letters, generously
constexpr double kLeastShare = 0.001;  // of the scale: less is no line on any screen

/// Colours are the same on a light and a dark screen, greys are not. Light letters stand on blue alone.
const char* ink_on(const std::string& look) {
  if (look == "idle" || look == "sync" || look == "rest") return "quiet";
  const bool plain = look.front() == 'c';
  if (look.back() == '4') return plain ? "seg light" : "seg light halo";
  return plain ? "seg" : "seg halo";
}

std::string piece_text(const Piece& piece, const std::string& look, double middle, double share, int height) {
  const std::string time = duration(piece.seconds);
  const double width = kCharacter * static_cast<double>(std::max(piece.name.size(), time.size())) + 6;
  const Fit both = fit(width, share);
  if (!both.ever) return "";
  const std::string kind = fmt::format("t {} {}", ink_on(look), both.kind);
  if (height < 36) return svg_text(100 * middle, height / 2.0 + 4, kind, "middle", text(piece.name));
  return svg_text(100 * middle, height / 2.0 - 3, kind, "middle", text(piece.name)) +
         svg_text(100 * middle, height / 2.0 + 12, kind, "middle", time);
}

}  // namespace

Fit fit(double pixels, double share) {
  // How wide a picture is at least on a phone, on a tablet or paper, and on a screen: style.cpp hides by
  // these.
  if (pixels <= 250 * share) return {true, ""};
  if (pixels <= 540 * share) return {true, "m"};
  if (pixels <= 860 * share) return {true, "l"};
  return {false, ""};
}

double end_of(const std::vector<Bar>& bars) {
  double end = 0;
  for (const Bar& bar : bars) {
    double sum = bar.begin;
    for (const Piece& piece : bar.pieces) sum += piece.seconds;
    end = std::max(end, sum);
  }
  return end;
}

std::string stacked_bar(const Bar& bar, double end, const Looks& looks) {
  std::string rects, texts;
  double at = end > 0 ? bar.begin / end : 0;
  for (const Piece& piece : bar.pieces) {
    const double share = end > 0 ? piece.seconds / end : 0;
    const std::string& look = looks.of(piece.name);
    if (share > kLeastShare / 4) {
      rects += fmt::format(
          "<rect x=\"{:.3f}%\" y=\"0\" width=\"{:.3f}%\" height=\"{}\" class=\"{} edge\"><title>{}: "
          "{}</title>"
          "</rect>",
          100 * at, 100 * share, bar.height, look, text(piece.name), duration(piece.seconds));
      texts += piece_text(piece, look, at + share / 2, share, bar.height);
    }
    at += share;
  }
  return lane(bar.left, picture(bar.height, bar.label, rects + texts));
}

std::string time_marks(double end, std::size_t most) {
  const Unit unit = unit_for(end);
  std::string marks;
  const std::vector<double> all = ticks(end * unit.factor, most);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double mark = all[i], x = end > 0 ? 100 * mark / (end * unit.factor) : 0;
    marks += fmt::format("<line x1=\"{0:.3f}%\" x2=\"{0:.3f}%\" y1=\"0\" y2=\"5\" class=\"axis\"/>", x);
    marks += svg_text(x, 19, i % 2 == 0 ? "t small" : "t small m",
                      x < 2    ? "start"
                      : x > 95 ? "end"
                               : "middle",
                      fmt::format("{:g}\u00a0{}", mark, unit.name));
  }
  return picture(24, "scale", "<line x1=\"0\" x2=\"100%\" y1=\"0.5\" y2=\"0.5\" class=\"axis\"/>" + marks);
}

std::string time_axis(double end) {
  return lane("", time_marks(end, 6));
}

std::string legend(const std::vector<Bar>& bars, double end, const Looks& looks) {
  std::vector<std::string> names;
  for (const Bar& bar : bars) {
    for (const Piece& piece : bar.pieces) {
      const bool listed = std::find(names.begin(), names.end(), piece.name) != names.end();
      if (!listed && piece.seconds > kLeastShare * end) names.push_back(piece.name);
    }
  }
  std::stable_sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return place_of_stage(a) < place_of_stage(b);
  });
  std::string items;
  for (const std::string& name : names) {
    items += fmt::format(
        "<li><svg width=\"18\" height=\"14\" aria-hidden=\"true\"><rect x=\"0.5\" y=\"0.5\" width=\"17\" "
        "height=\"13\" class=\"{} edge\"/></svg> {}</li>",
        looks.of(name), page::name(name));
  }
  return "<ul class=\"legend\">" + items + "</ul>\n";
}

}  // namespace refit::page
