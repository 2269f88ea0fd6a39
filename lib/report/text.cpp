// Aligned, rounded and wrapped for people.
#include "report/text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace refit::report {
namespace {

constexpr std::size_t kWidth = 100;

}  // namespace

std::string wrapped(std::string_view text, std::size_t indent) {
  std::string lines;
  std::size_t column = 0;
  bool line_is_empty = true;
  while (!text.empty()) {
    const std::size_t word = std::min(text.find(' '), text.size());
    if (!line_is_empty && column + 1 + word > kWidth) {
      lines += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!line_is_empty) {
      lines += ' ';
      ++column;
    }
    lines += text.substr(0, word);
    column += word;
    line_is_empty = false;
    text.remove_prefix(std::min(word + 1, text.size()));
  }
  return lines + "\n";
}

std::string seconds(const std::optional<double>& value) {
  if (!value) return "-";
  const double s = *value;
  const int decimals = s >= 1000 ? 0 : s >= 100 ? 1 : s >= 10 ? 2 : s >= 1 ? 3 : s >= 0.01 ? 4 : 6;
  return fmt::format("{:.{}f}", s, decimals);
}

std::string quoted(const std::optional<double>& value) {
  return value ? fmt::format("{}", *value) : "-";
}

std::string percent(const std::optional<double>& value, bool sign) {
  if (!value) return "-";
  return sign ? fmt::format("{:+.1f} %", 100 * *value) : fmt::format("{:.1f} %", 100 * *value);
}

std::string times(const std::optional<double>& value) {
  if (!value) return "-";
  if (*value >= 99999.5) return fmt::format("{:.0e}", *value);
  return *value >= 100 ? fmt::format("{:.0f}", *value) : fmt::format("{:.1f}", *value);
}

std::string pair(const std::string& a, const std::string& b) {
  return a == "-" && b == "-" ? "-" : fmt::format("{} / {}", a, b);
}

std::string arrow(const std::string& a, const std::string& b) {
  return a == "-" && b == "-" ? "-" : fmt::format("{} -> {}", a, b);
}

}  // namespace refit::report
