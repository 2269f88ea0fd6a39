// Marks in pictures of measurements: x in percent of the width, y in pixels. Titles are HTML.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace refit::page {

/// Of an arm by its index: two shapes, so that the arms differ without their colours.
[[nodiscard]] std::string point(std::size_t arm, double x, double y, std::string_view kind,
                                const std::string& title);
/// A line from the largest to the smallest of several values.
[[nodiscard]] std::string reach(double x, double top, double bottom, std::string_view kind);
/// Where something was tried and there is no value.
[[nodiscard]] std::string cross(double x, double y, const std::string& title);
/// Around a point whose bytes are wrong.
[[nodiscard]] std::string ring(double x, double y);
/// A straight piece of a curve.
[[nodiscard]] std::string stroke(double x1, double y1, double x2, double y2, std::string_view kind);

}  // namespace refit::page
