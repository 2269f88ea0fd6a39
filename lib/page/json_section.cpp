// The result itself, where no browser shows it and every program finds it.
#include <fmt/format.h>

#include "page/sections.hpp"

namespace refit::page {
namespace {

/// The same JSON without a character that means something to HTML. In a JSON text these stand in strings
/// alone.
std::string without_markup(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    switch (c) {
      case '<':
        out += "\\u003c";
        break;
      case '>':
        out += "\\u003e";
        break;
      case '&':
        out += "\\u0026";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace

std::string json_section(std::string_view json) {
  return fmt::format(
      "<footer>\n<h2>Result</h2>\n<p>Everything above is drawn from the result in this page: "
      "<a id=\"save\" download=\"result.json\" hidden>save it as JSON</a><noscript>it is the text of the "
      "element "
      "<code>script#result</code></noscript>.</p>\n"
      "<script type=\"application/json\" id=\"result\">{}</script>\n</footer>\n",
      without_markup(json));
}

}  // namespace refit::page
