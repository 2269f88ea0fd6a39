// One line a rank: how long it took, what it sent and received, where its time went, whether its bytes are
// right.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "refit/base/bytes.hpp"
#include "report/rank_figures.hpp"
#include "report/sections.hpp"
#include "report/text.hpp"

namespace refit::report {
namespace {

constexpr std::size_t kMostLines = 16;
constexpr std::size_t kMostNumbers = 8;

std::string line(const char* mark, const std::string& rank, const std::string& host, const std::string& step,
                 const std::string& sent, const std::string& received, const std::string& stage,
                 const std::string& verdict) {
  return fmt::format("{:<2}{:>5} {:<22.22}{:>9} {:>11} {:>11}  {:<22}{}\n", mark, rank, host, step, sent,
                     received, stage, verdict);
}

bool differs(const RankFigures& rank) {
  return !rank.arm->verdict.passed();
}

std::string rank_line(const RankFigures& rank, bool straggler, bool verified) {
  const std::string stage = rank.longest_stage.empty() ? "-"
                                                       : fmt::format("{} {}", rank.longest_stage,
                                                                     percent(rank.longest_share, false));
  return line(straggler ? " >" : "", fmt::format("{}", rank.row->rank), rank.row->host, seconds(rank.step),
              format_bytes(rank.sent), format_bytes(rank.received), stage,
              !verified       ? "not verified"
              : differs(rank) ? "DIFFERS"
                              : "equal");
}

/// All of them by number, or of very many the slowest, the median and the fastest.
std::vector<std::size_t> shown(const RankArmFigures& arm) {
  if (arm.ranks.size() > kMostLines && !arm.by_step.empty()) {
    return {arm.by_step.front(), arm.by_step[arm.by_step.size() / 2], arm.by_step.back()};
  }
  std::vector<std::size_t> all(arm.ranks.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

/// What the lines leave out: how many ranks, and which of them have wrong bytes.
std::string rest_line(const RankArmFigures& arm, const std::vector<std::size_t>& lines, bool verified) {
  if (lines.size() == arm.ranks.size()) return "";
  std::vector<std::uint32_t> wrong;
  for (std::size_t i = 0; i < arm.ranks.size(); ++i) {
    const bool left_out = std::find(lines.begin(), lines.end(), i) == lines.end();
    if (left_out && differs(arm.ranks[i])) wrong.push_back(arm.ranks[i].row->rank);
  }
  const std::size_t named = std::min(wrong.size(), kMostNumbers);
  std::string text =
      fmt::format("  These are the slowest, the median and the fastest of {} ranks", arm.ranks.size());
  if (!wrong.empty()) {
    text += fmt::format("; of the others {} DIFFER: {}{}", wrong.size(),
                        fmt::join(wrong.begin(), wrong.begin() + static_cast<std::ptrdiff_t>(named), ", "),
                        named < wrong.size() ? ", .." : "");
  } else if (verified) {
    text += "; the others are equal";
  }
  return wrapped(text + ".", 2);
}

std::string arm_lines(const char* name, const RankArmFigures& arm, std::uint32_t rounds, bool verified) {
  const RankFigures* straggler = arm.straggler();
  std::string text = fmt::format("  {}: {} {}", name, rounds, rounds == 1 ? "round" : "rounds");
  if (straggler != nullptr) {
    const double fastest = *arm.ranks[arm.by_step.back()].step;
    if (arm.by_step.size() > 1) {
      text += fmt::format("; the slowest is rank {} on {}", straggler->row->rank, straggler->row->host);
    }
    if (arm.by_step.size() > 1 && fastest > 0) {
      text += fmt::format(", {:.2f} x the fastest", *straggler->step / fastest);
    }
  }
  if (straggler != nullptr && straggler->exchanging && *straggler->exchanging > 0) {
    text += fmt::format(
        "; of the {} s in which its rounds were under way it packed and placed others for {:.0f} %",
        seconds(straggler->exchanging), 100 * *straggler->hidden / *straggler->exchanging);
  }
  text = wrapped(text + ".", 4) +
         line("", "rank", "host", "step s", "sent", "received", "longest stage", "verify");
  const std::vector<std::size_t> lines = shown(arm);
  for (const std::size_t i : lines) {
    text += rank_line(arm.ranks[i], &arm.ranks[i] == straggler, verified);
  }
  return text + rest_line(arm, lines, verified);
}

}  // namespace

std::string ranks_section(const Report& report) {
  const ranks::Result& result = *report.ranks;
  const scenario::Ranks& asked = *report.scenario.ranks;
  std::string text = wrapped(
      fmt::format(
          "{} ranks: trainer {}, generator {}, {}{}", asked.processes(), reshard::to_string(result.trainer),
          reshard::to_string(result.generator),
          asked.colocated ? "on the same ranks" : "on ranks of their own",
          result.simulated_rank
              ? fmt::format(". SIMULATED: only rank {} ran. What the others send it was made here before "
                            "each refit and moves at the speed of this memory, so that no link's time is in "
                            "these seconds; what it sends goes nowhere.",
                            *result.simulated_rank)
              : fmt::format("; bytes move by {}. A step takes as long as its slowest rank (>).",
                            result.exchange)),
      2);
  for (const std::string& note : result.notes) text += wrapped("  Note: " + note, 8);
  return text +
         arm_lines("off", derive(result, &ranks::RankRow::control), result.rounds_control,
                   report.result->control.verified_refits > 0) +
         arm_lines("on", derive(result, &ranks::RankRow::treatment), result.rounds_treatment,
                   report.result->treatment.verified_refits > 0);
}

}  // namespace refit::report
