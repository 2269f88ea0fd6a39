// What people type.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/json_node.hpp"
#include "refit/base/error.hpp"
#include "refit/base/printable.hpp"
#include "refit/gate/gate.hpp"

namespace refit::gate {
namespace {

/// A number at the beginning of `text`, which is left with what follows it; NaN when there is none.
double take_number(std::string_view& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || !std::isfinite(value) || value < 0) return std::nan("");
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

}  // namespace

double parse_share(std::string_view text, std::string_view what) {
  std::string_view rest = text;
  double value = take_number(rest);
  if (rest == "%") {
    value /= 100;
  } else if (!rest.empty()) {
    value = std::nan("");
  }
  if (!(value <= 10))
    fail_input(fmt::format("{}: {} is no share such as 5% or 0.05", what, json_quoted(text)));
  return value;
}

double parse_seconds(std::string_view text, std::string_view what) {
  std::string_view rest = text;
  const double value = take_number(rest);
  const double unit = rest == "s" ? 1 : rest == "ms" ? 1e-3 : rest == "us" ? 1e-6 : rest == "ns" ? 1e-9 : 0;
  if (!(value >= 0) || unit == 0) {
    fail_input(fmt::format("{}: {} is no time such as 0.1ms, 20us or 1s", what, json_quoted(text)));
  }
  return value * unit;
}

void parse_warmup(std::string_view text, Selection& selection) {
  if (text == "auto") {
    selection.by_rule = true;
    return;
  }
  const auto count = whole_number(text);
  if (!count || *count > 1'000'000'000) {
    fail_input(fmt::format("--warmup: {} is neither auto nor a number of samples", json_quoted(text)));
  }
  selection.first = *count + 1;
}

void parse_steps(std::string_view text, Selection& selection) {
  const std::size_t dash = text.find('-');
  const auto first = whole_number(text.substr(0, dash));
  const auto last = dash == text.npos ? std::nullopt : whole_number(text.substr(dash + 1));
  if (!first || !last || *first == 0 || *first > *last) {
    fail_input(fmt::format("--steps: {} is no range such as 3-20", json_quoted(text)));
  }
  selection.first = first;
  selection.last = last;
}

void require_fields(const std::vector<std::string>& fields) {
  const auto& known = fingerprint_fields();
  for (const std::string& field : fields) {
    if (std::find(known.begin(), known.end(), field) == known.end()) {
      fail_input(fmt::format("--allow: {} {}", json_quoted(field), unknown_key(field, known)));
    }
  }
}

}  // namespace refit::gate
