// The document around the sections.
#include "refit/page/page.hpp"

#include <fmt/format.h>

#include "page/html.hpp"
#include "page/looks.hpp"
#include "page/result.hpp"
#include "page/sections.hpp"
#include "page/style.hpp"

namespace refit::page {
namespace {

/// The policy lets no byte in from anywhere: should a name ever get out of its place, it still does nothing.
std::string head(const Result& result) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src '{}'; base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>refit-bench: {}, {}</title>\n<style>{}</style>\n</head>\n",
      kScriptDigest, shortened(result.name, 120), text(result.status), kStyle);
}

}  // namespace

std::string to_html(std::string_view json, const std::string& file) {
  const Json root = parse_json(json, file);
  const Result result = read_result(JsonNode(root, file));
  return head(result) + "<body>\n" + pattern_definitions() + "<main>\n" + top_section(result) +
         headline_section(result) + bars_section(result) + phase_section(result) + samples_section(result) +
         stage_section(result) + ranks_section(result) + memory_section(result) + verify_section(result) +
         setup_section(result) + json_section(json) + "</main>\n<script>" + kScript +
         "</script>\n</body>\n</html>\n";
}

std::string file_to_html(const std::string& path) {
  return to_html(read_json_text(path), path);
}

}  // namespace refit::page
