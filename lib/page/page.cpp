// The document around the sections.
#include "refit/page/page.hpp"

#include <fmt/format.h>

#include "page/html.hpp"
#include "page/looks.hpp"
#include "page/result.hpp"
#include "page/sections.hpp"
#include "page/style.hpp"
#include "page/sweep.hpp"

namespace refit::page {
namespace {

constexpr std::string_view kBench = "refit-bench/1", kSweep = "refit-sweep/1";

/// The policy lets no byte in from anywhere: should a name ever get out of its place, it still does nothing.
std::string document(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src '{}'; base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n{}<main>\n{}</main>\n<script>{}</script>\n"
      "</body>\n</html>\n",
      kScriptDigest, title, kStyle, pattern_definitions(), body, kScript);
}

std::string bench_page(const JsonNode& root, std::string_view json) {
  const Result result = read_result(root);
  return document(fmt::format("refit-bench: {}, {}", shortened(result.name, 120), text(result.status)),
                  top_section(result) + headline_section(result) + bars_section(result) +
                      phase_section(result) + projected_section(result) + samples_section(result) +
                      stage_section(result) + ranks_section(result) + rounds_section(result) +
                      memory_section(result) + verify_section(result) + setup_section(result) +
                      environment_section(result, "") + json_section(json));
}

std::string sweep_page(const JsonNode& root, std::string_view json) {
  const Sweep sweep = read_sweep(root);
  return document(
      fmt::format("refit-bench: {}, sweep of {}", shortened(sweep.first.name, 120),
                  shortened(sweep.axes.front().key, 40)),
      sweep_top_section(sweep) + sweep_curve_section(sweep) + sweep_table_section(sweep) +
          environment_section(sweep.first, "Of one point; the others differ from it in what was swept.") +
          json_section(json));
}

}  // namespace

std::string to_html(std::string_view json, const std::string& file) {
  const Json root = parse_json(json, file);
  const JsonNode node(root, file);
  const JsonNode schema = node.at("schema");
  const std::string kind = schema.json().is_string() ? schema.text() : "";
  if (kind != kBench && kind != kSweep) {
    schema.fail(fmt::format("has to be \"{}\" or \"{}\", not {}", kBench, kSweep, json_shown(schema.json())));
  }
  return kind == kSweep ? sweep_page(node, json) : bench_page(node, json);
}

std::string file_to_html(const std::string& path) {
  return to_html(read_json_text(path), path);
}

}  // namespace refit::page
