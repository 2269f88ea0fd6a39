// Escaping, and the few shapes of markup that sections share.
#include "page/html.hpp"

#include <fmt/format.h>

#include "base/markup.hpp"
#include "refit/base/printable.hpp"

namespace refit::page {
namespace {

bool begins_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
}

}  // namespace

std::string text(std::string_view text) {
  return markup_escaped(printable(text));
}

std::string name(std::string_view text) {
  return "<bdi>" + page::text(text) + "</bdi>";
}

std::string shortened(std::string_view text, std::size_t most) {
  const std::string shown = printable(text);
  std::size_t characters = 0;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    if (begins_character(shown[i]) && characters++ == most)
      return markup_escaped(shown.substr(0, i)) + "\u2026";
  }
  return markup_escaped(shown);
}

std::string section(std::string_view id, std::string_view heading, const std::string& body) {
  return fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n{}</section>\n", id, heading, body);
}

std::string table(std::string_view label, const std::string& head, const std::vector<TableRow>& rows) {
  std::string body;
  for (const TableRow& row : rows) {
    body += row.kind.empty() ? "<tr>" : fmt::format("<tr class=\"{}\">", row.kind);
    body += fmt::format("<th scope=\"row\">{}</th>", row.head);
    for (const std::string& cell : row.cells) body += "<td>" + cell + "</td>";
    body += "</tr>\n";
  }
  return fmt::format(
      "<div class=\"wide {0}\" role=\"region\" aria-label=\"{0}\" "
      "tabindex=\"0\"><table>\n<thead>{1}</thead>\n"
      "<tbody>\n{2}</tbody>\n</table></div>\n",
      label, head, body);
}

std::string banner(const Banner& banner) {
  return fmt::format(
      "<div class=\"banner {}\" id=\"verdict\" role=\"status\"><span class=\"sign\" "
      "aria-hidden=\"true\">{}</span>"
      "<div><strong>{}</strong>{}</div></div>\n",
      banner.kind, banner.mark, banner.title, banner.body);
}

std::string paragraph(const std::string& html) {
  return html.empty() ? "" : "<p>" + html + "</p>";
}

std::string entry(const char* term, const std::string& html) {
  return fmt::format("<dt>{}</dt><dd>{}</dd>\n", term, html);
}

std::string lane(const std::string& left, const std::string& picture) {
  return fmt::format("<div class=\"lane\"><div class=\"left\">{}</div>{}</div>\n", left, picture);
}

std::string picture(int height, std::string_view label, const std::string& body) {
  return fmt::format("<svg width=\"100%\" height=\"{}\" role=\"img\" aria-label=\"{}\">{}</svg>", height,
                     label, body);
}

std::string stretched(int height, std::string_view label, const std::string& body) {
  return fmt::format(
      "<svg class=\"stretched\" width=\"100%\" height=\"{0}\" viewBox=\"0 0 {1} {0}\" "
      "preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{2}\">{3}</svg>",
      height, kStretched, label, body);
}

std::string svg_text(double x_percent, double y, std::string_view classes, std::string_view anchor,
                     const std::string& text) {
  return fmt::format("<text x=\"{:.2f}%\" y=\"{:g}\" class=\"{}\" text-anchor=\"{}\">{}</text>", x_percent, y,
                     classes, anchor, text);
}

}  // namespace refit::page
