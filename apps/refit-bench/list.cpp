// The table of --list.
#include "list.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "common/cli.hpp"
#include "refit/scenario/scenario.hpp"
#include "terminal.hpp"

namespace refit::apps {
namespace {

constexpr std::size_t kColumns = 6;
using Row = std::array<std::string, kColumns>;

const Row kHeading = {"NAME", "MODEL", "GPUS", "RANKS", "TITLE", "SOURCE"};
constexpr std::size_t kFirstNumber = 2, kLastNumber = 3;

/// A field is never empty, so that fields can be counted.
std::string shown(const std::string& text) {
  return text.empty() ? "-" : text;
}

template <typename Number>
std::string shown(const std::optional<Number>& number) {
  return number ? fmt::format("{}", *number) : "-";
}

Row row_of(const scenario::Entry& entry) {
  return {entry.name,         shown(entry.model), shown(entry.gpus),
          shown(entry.ranks), entry.title,        shown(entry.source)};
}

std::string line_of(const Row& row, const std::array<std::size_t, kColumns>& widths) {
  std::string line;
  for (std::size_t i = 0; i < kColumns; ++i) {
    const bool number = i >= kFirstNumber && i <= kLastNumber;
    if (i > 0) line += "  ";
    if (i + 1 == kColumns) {
      line += row[i];
    } else {
      line += number ? fmt::format("{:>{}}", row[i], widths[i]) : fmt::format("{:<{}}", row[i], widths[i]);
    }
  }
  return line;
}

}  // namespace

int list_scenarios() {
  const std::size_t columns = bar_style(STDOUT_FILENO).columns;
  std::vector<Row> rows;
  if (columns > 0) rows.push_back(kHeading);
  for (const scenario::Entry& entry : scenario::list_scenarios()) rows.push_back(row_of(entry));
  std::array<std::size_t, kColumns> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line = line_of(row, widths);
    if (columns > 0 && line.size() > columns) line.resize(columns);
    text += line + "\n";
  }
  write_stdout(text);
  return 0;
}

}  // namespace refit::apps
