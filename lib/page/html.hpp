// HTML and SVG as text. Whatever comes from outside goes through text() or name().
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace refit::page {

/// `text` as characters of an element or a quoted attribute: no markup, no control characters, no marks of
/// direction.
[[nodiscard]] std::string text(std::string_view text);
/// A name within a sentence: one that is written from right to left leaves its neighbours where they are.
[[nodiscard]] std::string name(std::string_view text);
/// The first characters of `text`, as text().
[[nodiscard]] std::string shortened(std::string_view text, std::size_t most);

/// <section> with a heading, and an anchor `id` of ours.
[[nodiscard]] std::string section(std::string_view id, std::string_view heading, const std::string& body);

/// Cells are HTML already; numbers stand right.
struct TableRow {
  std::string head;
  std::vector<std::string> cells;
  std::string kind;  ///< a class of the row
};
/// `head` holds whole <tr>; `label` is a class, too. A table that is wider than the page scrolls alone.
[[nodiscard]] std::string table(std::string_view label, const std::string& head,
                                const std::vector<TableRow>& rows);

/// What a page says first; `kind` is a class: good, warn, plain or bad.
struct Banner {
  const char *kind, *mark;
  std::string title, body;  ///< HTML
};
[[nodiscard]] std::string banner(const Banner& banner);
/// Nothing for nothing.
[[nodiscard]] std::string paragraph(const std::string& html);
/// An entry of a <dl>.
[[nodiscard]] std::string entry(const char* term, const std::string& html);

/// Something to the left of a picture, aligned with the others of its figure.
[[nodiscard]] std::string lane(const std::string& left, const std::string& picture);

/// A picture as wide as its place: positions along x are percentages, along y pixels.
[[nodiscard]] std::string picture(int height, std::string_view label, const std::string& body);
/// One that is drawn 10000 wide and stretched to its place; strokes keep their width. No texts in it.
inline constexpr double kStretched = 10000;
[[nodiscard]] std::string stretched(int height, std::string_view label, const std::string& body);
/// `classes` beside "t"; `anchor` is start, middle or end.
[[nodiscard]] std::string svg_text(double x_percent, double y, std::string_view classes,
                                   std::string_view anchor, const std::string& text);

}  // namespace refit::page
