// A comment under a pull request.
#include <fmt/format.h>

#include <algorithm>

#include "gate/text.hpp"
#include "refit/gate/render.hpp"

namespace refit::gate {
namespace {

constexpr std::size_t kMostRows = 100;

/// What a table's cell and a list's line may hold: names are no markup, no mentions and no columns.
std::string plain(std::string_view text) {
  constexpr std::string_view kMarkup = "\\`*_{}[]()#|~@!$";
  std::string out;
  for (const char c : text) {
    if (c == '<' || c == '>' || c == '&') {
      out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : "&amp;";
    } else {
      if (kMarkup.find(c) != kMarkup.npos) out += '\\';
      out += c;
    }
  }
  return out;
}

std::string row_text(const Row& row) {
  return fmt::format(
      "| {}{}{} | {} | {} | {} | {} | {} | {} |\n", row.verdict == Verdict::pass ? "" : "**",
      name_of(row.verdict), row.verdict == Verdict::pass ? "" : "**", plain(row.name), row.before, row.after,
      row.change, row.interval,
      row.allowed + (row.reason.empty() ? "" : (row.allowed.empty() ? "" : "; ") + plain(row.reason)));
}

}  // namespace

std::string to_markdown(const Report& report) {
  std::string text = fmt::format("### refit-gate: {}\n\n", plain(summary(report)));
  std::vector<Row> all = rows(report);
  std::stable_partition(all.begin(), all.end(), [](const Row& row) { return row.verdict != Verdict::pass; });
  if (!all.empty()) {
    text +=
        "| verdict | what | baseline or limit | candidate | change | 95 % interval | allowed |\n"
        "| --- | --- | ---: | ---: | ---: | ---: | --- |\n";
    for (std::size_t i = 0; i < std::min(all.size(), kMostRows); ++i) text += row_text(all[i]);
    text += "\n";
    if (all.size() > kMostRows) text += fmt::format("and {} more\n\n", all.size() - kMostRows);
  }
  for (const Remark& remark : remarks(report)) {
    text += fmt::format("- {}{}\n", remark.kind == Remark::Kind::note ? "" : "**not compared:** ",
                        plain(remark.text));
  }
  if (!report.baseline.empty()) text += fmt::format("- baseline: {}\n", plain(files(report.baseline)));
  return text + fmt::format("- candidate: {}\n", plain(files(report.candidate)));
}

}  // namespace refit::gate
