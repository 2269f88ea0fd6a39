// Okabe and Ito's palette (jfly.uni-koeln.de/color), plain, striped and dotted.
#include "page/looks.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <string_view>
#include <utility>

namespace refit::page {
namespace {

constexpr std::size_t kColours = 7;

// Where time goes that nobody works in is grey. One that moves bytes and one that replaces it share a colour.
constexpr std::pair<std::string_view, std::string_view> kStageLooks[] = {
    {"pack", "c0"},
    {"gather", "c1"},
    {"load", "c2"},
    {"swizzle", "c3"},
    {"transfer", "c4"},
    {"quantize", "c5"},
    {"shuffle", "c6"},
    {"exchange", "s4"},
    {"allocate", "s1"},
    {"open", "s2"},
    {"publish", "s6"},
    {"commit", "s5"},
    {"prepare", "s0"},
    {"offload", "s3"},
    {"wait", "idle"},
    {"synchronize", "sync"},
    {"unattributed", "rest"},
    {"other", "rest"},
    {"prepare_for_generation", "c5"},
    {"generation", "c1"},
    {"policy_and_reference_logprobs", "c0"},
    {"policy_training", "c2"}};

}  // namespace

Looks::Looks(const std::vector<std::string>& names) {
  for (const auto& [name, look] : kStageLooks) classes_.emplace(name, look);
  std::size_t others = 0;
  for (const std::string& name : names) {
    if (classes_.emplace(name, fmt::format("d{}", others % kColours)).second) ++others;
  }
}

std::string pattern_definitions() {
  std::string patterns;
  for (std::size_t i = 0; i < kColours; ++i) {
    patterns += fmt::format(
        "<pattern id=\"s{0}\" width=\"9\" height=\"9\" patternUnits=\"userSpaceOnUse\" "
        "patternTransform=\"rotate(45)\"><rect width=\"9\" height=\"9\" class=\"c{0}\"/><rect width=\"3\" "
        "height=\"9\" class=\"mark\"/></pattern>"
        "<pattern id=\"d{0}\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\"><rect width=\"8\" "
        "height=\"8\" class=\"c{0}\"/><circle cx=\"4\" cy=\"4\" r=\"1.6\" class=\"mark\"/></pattern>",
        i);
  }
  return "<svg class=\"patterns\" width=\"0\" height=\"0\" aria-hidden=\"true\"><defs>" + patterns +
         "<pattern id=\"idle\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" "
         "patternTransform=\"rotate(-45)\"><rect width=\"7\" height=\"7\" class=\"grey\"/><rect "
         "width=\"1.4\" "
         "height=\"7\" class=\"line\"/></pattern>"
         "<pattern id=\"sync\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\"><rect width=\"6\" "
         "height=\"6\" class=\"grey\"/><circle cx=\"3\" cy=\"3\" r=\"1.1\" class=\"line\"/></pattern>"
         "</defs></svg>\n";
}

}  // namespace refit::page
