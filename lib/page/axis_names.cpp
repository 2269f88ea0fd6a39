// A wider page has room for more names: those that a phone shows first, then what fits between them.
#include "page/axis_names.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "page/html.hpp"

namespace refit::page {
namespace {

constexpr double kLetter = 7, kGap = 8;  // pixels of 11.5-pixel letters, generously
constexpr std::size_t kMostLetters = 14;

struct Label {
  std::string html;
  double pixels;
  double place;  ///< percent
  const char* anchor;
  std::string_view kind;
  bool placed = false;
};

/// From where to where on a picture so wide.
std::array<double, 2> extent(const Label& label, double width) {
  const double x = label.place / 100 * width;
  const std::string_view anchor = label.anchor;
  const double begin = anchor == "start" ? x : anchor == "end" ? x - label.pixels : x - label.pixels / 2;
  return {begin, begin + label.pixels};
}

bool fits(const std::vector<Label>& labels, const Label& label, double width) {
  const auto own = extent(label, width);
  return std::none_of(labels.begin(), labels.end(), [&](const Label& other) {
    if (!other.placed) return false;
    const auto taken = extent(other, width);
    return own[0] < taken[1] + kGap && taken[0] < own[1] + kGap;
  });
}

std::size_t letters_of(const std::string& name) {
  return static_cast<std::size_t>(std::count_if(
      name.begin(), name.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

std::string axis_names(const std::string& title, const std::vector<std::string>& names,
                       const std::vector<double>& places, bool half) {
  // The narrowest that a picture gets on a phone, a tablet or paper, and a screen: style.cpp hides by these.
  const std::array<double, 3> widths{250, half ? 250.0 : 540.0, half ? 400.0 : 860.0};
  constexpr std::array<std::string_view, 3> kKinds{"t small", "t small m", "t small l"};
  std::vector<Label> labels;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const double pixels = kLetter * static_cast<double>(std::min(kMostLetters + 1, letters_of(names[i])));
    const double x = places[i] / 100 * widths[0];
    // Beside a picture are the marks of its other axis and the edge of the page, where a little may reach.
    constexpr double kLeft = 48, kRight = 12;
    const char* const anchor = x + kLeft < pixels / 2                ? "start"
                               : widths[0] - x + kRight < pixels / 2 ? "end"
                                                                     : "middle";
    labels.push_back({shortened(names[i], kMostLetters), pixels, places[i], anchor, ""});
  }
  for (std::size_t size = 0; size < widths.size(); ++size) {
    for (Label& label : labels) {
      if (label.placed || !fits(labels, label, widths[size])) continue;
      label.placed = true;
      label.kind = kKinds[size];
    }
  }
  std::string body;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const Label& label = labels[i];
    if (label.placed) body += svg_text(label.place, 13, label.kind, label.anchor, label.html);
  }
  return picture(38, shortened(title, 40),
                 body + svg_text(50, 32, "t small strong", "middle", shortened(title, 40)));
}

}  // namespace refit::page
