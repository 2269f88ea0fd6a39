// Escaping, and the few shapes of markup that sections share.
#include "page/html.hpp"

#include <fmt/format.h>

#include "refit/base/printable.hpp"

namespace refit::page {
namespace {

bool begins_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace

std::string text(std::string_view text) {
  return escaped(printable(text));
}

std::string name(std::string_view text) {
  return "<bdi>" + page::text(text) + "</bdi>";
}

std::string shortened(std::string_view text, std::size_t most) {
  const std::string shown = printable(text);
  std::size_t characters = 0;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    if (begins_character(shown[i]) && characters++ == most) return escaped(shown.substr(0, i)) + "\u2026";
  }
  return escaped(shown);
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

std::string lane(const std::string& left, const std::string& picture) {
  return fmt::format("<div class=\"lane\"><div class=\"left\">{}</div>{}</div>\n", left, picture);
}

std::string picture(int height, std::string_view label, const std::string& body) {
  return fmt::format("<svg width=\"100%\" height=\"{}\" role=\"img\" aria-label=\"{}\">{}</svg>", height,
                     label, body);
}

std::string svg_text(double x_percent, double y, std::string_view classes, std::string_view anchor,
                     const std::string& text) {
  return fmt::format("<text x=\"{:.2f}%\" y=\"{:g}\" class=\"{}\" text-anchor=\"{}\">{}</text>", x_percent, y,
                     classes, anchor, text);
}

}  // namespace refit::page
