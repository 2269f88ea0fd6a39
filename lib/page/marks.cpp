// Percentages do not take part in arithmetic: what is not round has coordinates of its own around its place.
#include "page/marks.hpp"

#include <fmt/format.h>

namespace refit::page {
namespace {

std::string around(double x, double y, const std::string& body) {
  return fmt::format("<svg x=\"{:.2f}%\" y=\"{:.1f}\" overflow=\"visible\">{}</svg>", x, y, body);
}

}  // namespace

std::string point(std::size_t arm, double x, double y, std::string_view kind, const std::string& title) {
  if (arm == 0) {
    return fmt::format("<circle cx=\"{:.2f}%\" cy=\"{:.1f}\" r=\"4\" class=\"{}\"><title>{}</title></circle>",
                       x, y, kind, title);
  }
  return around(x, y,
                fmt::format("<rect x=\"-3.6\" y=\"-3.6\" width=\"7.2\" height=\"7.2\" class=\"{}\"><title>{}"
                            "</title></rect>",
                            kind, title));
}

std::string reach(double x, double top, double bottom, std::string_view kind) {
  return stroke(x, top, x, bottom, fmt::format("reach {}", kind));
}

std::string cross(double x, double y, const std::string& title) {
  return around(x, y, "<path d=\"M-5 -5L5 5M5 -5L-5 5\" class=\"cross\"><title>" + title + "</title></path>");
}

std::string ring(double x, double y) {
  return fmt::format("<circle cx=\"{:.2f}%\" cy=\"{:.1f}\" r=\"8\" class=\"ring\"/>", x, y);
}

std::string stroke(double x1, double y1, double x2, double y2, std::string_view kind) {
  return fmt::format("<line x1=\"{:.2f}%\" x2=\"{:.2f}%\" y1=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>", x1, x2,
                     y1, y2, kind);
}

}  // namespace refit::page
