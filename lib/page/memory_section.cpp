// What a refit needs beside sources and parameters.
#include <fmt/format.h>

#include <algorithm>

#include "page/bars.hpp"
#include "page/cells.hpp"
#include "page/html.hpp"
#include "page/sections.hpp"
#include "page/units.hpp"
#include "refit/base/bytes.hpp"

namespace refit::page {
namespace {

std::string bar(const std::string& left, const char* kind, std::uint64_t bytes, std::uint64_t end) {
  const double share = end == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(end);
  const bool inside = share > 0.6;
  const std::string label = format_bytes(bytes);
  std::string body = fmt::format("<rect x=\"0\" y=\"3\" width=\"{:.3f}%\" height=\"20\" class=\"{} edge\"/>",
                                 std::max(100 * share, bytes == 0 ? 0 : 0.15), kind);
  body += fmt::format("<text x=\"{:.3f}%\" y=\"17\" dx=\"{}\" class=\"t{}\" text-anchor=\"{}\">{}</text>",
                      100 * share, inside ? -8 : 8,
                      inside && std::string_view(kind) != "budget-bar" ? " onarm" : "",
                      inside ? "end" : "start", label);
  return lane(left, picture(26, left + ": " + label, body));
}

std::string extra_bars(const Result& result) {
  std::uint64_t end = 0;
  for (const Arm& arm : result.arms) end = std::max(end, arm.peak_extra_bytes);
  std::string html;
  for (std::size_t i = 0; i < result.arms.size(); ++i) {
    html += bar(kArms[i], kArms[i], result.arms[i].peak_extra_bytes, end);
  }
  return "<figure>\n" + html +
         fmt::format("<figcaption>At most held beside sources and parameters{}.</figcaption></figure>\n",
                     !result.ranks             ? ""
                     : result.ranks->simulated ? " by the rank that ran"
                                               : ", by all ranks together");
}

std::string need_bars(const Result& result) {
  if (!result.memory_needed) return "";
  const std::uint64_t needed = *result.memory_needed;
  const std::uint64_t end = std::max(needed, result.memory_budget.value_or(0));
  std::string html = bar("needed", "plain-bar", needed, end);
  if (result.memory_budget) html += bar("budget", "budget-bar", *result.memory_budget, end);
  return "<figure>\n" + html +
         fmt::format("<figcaption>Everything {} by the plan{}.</figcaption></figure>\n",
                     find(result.root, {"scenario", "ranks"}) ? "that ranks which share a memory hold"
                                                              : "that both processes hold",
                     result.memory_budget ? ", and what it was allowed" : "; nothing here sets a budget");
}

constexpr int kBarsHeight = 150;

/// From `x` on, `width` percent wide; of ranks that share it the most.
std::string rank_column(const Ranks& ranks, const Cells& cells, std::size_t cell, std::size_t arm, double x,
                        double width, std::uint64_t end) {
  std::uint64_t peak = 0;
  std::optional<std::uint64_t> planned;
  for (std::size_t i = cells.first(cell); i < cells.end(cell); ++i) {
    const RankArm& part = ranks.rows[i].arms[arm];
    peak = std::max(peak, part.peak_extra_bytes);
    if (part.most_extra_bytes) planned = std::max(planned.value_or(0), *part.most_extra_bytes);
  }
  const auto y = [&](std::uint64_t bytes) {
    return kBarsHeight - (kBarsHeight - 14) * static_cast<double>(bytes) / static_cast<double>(end);
  };
  std::string html = fmt::format(
      "<rect x=\"{:.3f}%\" y=\"{:.1f}\" width=\"{:.3f}%\" height=\"{:.1f}\" class=\"{}\"><title>{}, {}: "
      "{}{}</title>"
      "</rect>",
      x, y(peak), width, kBarsHeight - y(peak), kArms[arm], cells.name(cell), kArms[arm], format_bytes(peak),
      planned ? fmt::format(" of {} planned", format_bytes(*planned)) : "");
  if (planned) {
    html += fmt::format("<line x1=\"{:.3f}%\" x2=\"{:.3f}%\" y1=\"{:.1f}\" y2=\"{:.1f}\" class=\"planned\"/>",
                        x - width * 0.08, x + width * 1.08, y(*planned), y(*planned));
  }
  return html;
}

/// A column of each arm at every rank, and a line across it where the plan says it may end.
std::string rank_columns(const Ranks& ranks) {
  std::uint64_t end = 1;
  for (const Rank& rank : ranks.rows) {
    for (const RankArm& arm : rank.arms) {
      end = std::max({end, arm.peak_extra_bytes, arm.most_extra_bytes.value_or(0)});
    }
  }
  const Cells cells(ranks);
  const double slot = 100.0 / static_cast<double>(std::max<std::size_t>(cells.count(), 6));
  std::string columns, numbers;
  for (std::size_t cell = 0; cell < cells.count(); ++cell) {
    const double left = slot * static_cast<double>(cell);
    for (std::size_t arm = 0; arm < kArms.size(); ++arm) {
      columns += rank_column(ranks, cells, cell, arm, left + slot * (arm == 0 ? 0.1 : 0.5), slot * 0.36, end);
    }
    if (cell % Cells::numbered(slot) == 0) {
      numbers += svg_text(left + slot * 0.48, 14, "t small", "middle",
                          fmt::format("{}", ranks.rows[cells.first(cell)].number));
    }
  }
  const std::string scale = fmt::format("<span class=\"top\">{}</span>", format_bytes(end));
  return "<figure>\n" +
         lane(scale,
              picture(
                  kBarsHeight, "peak extra memory of every rank",
                  columns + fmt::format("<line x1=\"0\" x2=\"100%\" y1=\"{0}\" y2=\"{0}\" class=\"axis\"/>",
                                        kBarsHeight - 0.5))) +
         lane("rank", picture(18, "ranks", numbers)) +
         "<figcaption>Peak of every rank beside sources and parameters, <span class=\"dot control\"></span> "
         "control and "
         "<span class=\"dot treatment\"></span> treatment; the line across is the most that the plan "
         "allows.</figcaption>"
         "</figure>\n";
}

}  // namespace

std::string memory_section(const Result& result) {
  std::string html;
  if (result.measured()) html += extra_bars(result);
  if (result.ranks && !result.ranks->rows.empty()) html += rank_columns(*result.ranks);
  html += need_bars(result) + memory_over_time(result);
  return html.empty() ? "" : section("memory", "Memory", html);
}

}  // namespace refit::page
