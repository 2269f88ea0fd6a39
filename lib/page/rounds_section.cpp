// Rounds of the last measured refit: what is under way while others are packed and placed costs nothing.
#include <fmt/format.h>

#include <algorithm>

#include "page/bars.hpp"
#include "page/html.hpp"
#include "page/sections.hpp"
#include "page/units.hpp"

namespace refit::page {
namespace {

constexpr std::size_t kMostOthers = 16;
constexpr double kTrack = 8;        // pixels
constexpr double kLeastPiece = 10;  // of kStretched: less is no line on any screen
constexpr int kRowHeight = 38;

/// Pieces of one track as one path, those that touch on any screen as one piece.
class TrackPath {
 public:
  TrackPath(double y, double end) : y_(y), end_(end) {}
  void add(double from, double to) {
    const double begin = kStretched * from / end_,
                 until = std::max(kStretched * to / end_, begin + kLeastPiece);
    if (open_ && begin <= until_ + 1 && until - begin < 2 * kLeastPiece && begin >= begin_) {
      until_ = std::max(until_, until);
      return;
    }
    close();
    begin_ = begin;
    until_ = until;
    open_ = true;
  }
  [[nodiscard]] std::string html(const char* kind) {
    close();
    return path_.empty() ? "" : fmt::format("<path class=\"{}\" d=\"{}\"/>", kind, path_);
  }

 private:
  void close() {
    if (open_)
      path_ += fmt::format("M{:.0f} {:g}H{:.0f}V{:g}H{:.0f}Z", begin_, y_, until_, y_ + kTrack, begin_);
    open_ = false;
  }
  double y_, end_, begin_ = 0, until_ = 0;
  bool open_ = false;
  std::string path_;
};

std::string row_html(const Rank& rank, const RankArm& arm, bool slowest, double end) {
  // Neighbours of those under way do not hide each other.
  TrackPath pack(1, end), even(10, end), odd(19, end), place(28, end);
  for (std::size_t i = 0; i < arm.rounds.size(); ++i) {
    const RoundTimes& round = arm.rounds[i];
    pack.add(round.pack, round.start);
    (i % 2 == 0 ? even : odd).add(round.start, round.arrived);
    place.add(round.arrived, round.placed);
  }
  std::string left = fmt::format("{}rank {}", slowest ? "\u25b6 " : "", rank.number);
  std::string words = fmt::format("rank {}, {} {}", rank.number, arm.rounds.size(),
                                  arm.rounds.size() == 1 ? "round" : "rounds");
  if (arm.exchanging && arm.hidden && *arm.exchanging > 0) {
    const std::string hidden =
        fmt::format("{:.0f}\u00a0% hidden", 100 * std::min(1.0, *arm.hidden / *arm.exchanging));
    left += "<div>" + hidden + "</div>";
    words += ", " + hidden;
  }
  return lane(left, stretched(kRowHeight, words,
                              pack.html("c0") + even.html("c4") + odd.html("c4") + place.html("c2")));
}

/// Indices of ranks that have rounds: the slowest and those next to it in time, in their own order.
std::vector<std::size_t> drawn_rows(const Ranks& ranks, std::size_t arm) {
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < ranks.rows.size(); ++i) {
    if (!ranks.rows[i].arms[arm].rounds.empty()) rows.push_back(i);
  }
  const auto key = [&](std::size_t i) {
    const Rank& rank = ranks.rows[i];
    return std::pair(rank.number == ranks.straggler[arm], rank.arms[arm].median.value_or(0));
  };
  std::stable_sort(rows.begin(), rows.end(), [&](std::size_t a, std::size_t b) { return key(a) > key(b); });
  rows.resize(std::min(rows.size(), kMostOthers + 1));
  std::sort(rows.begin(), rows.end());
  return rows;
}

double end_of_rounds(const Ranks& ranks, const std::vector<std::size_t>& rows, std::size_t arm) {
  double end = 0;
  for (const std::size_t i : rows) {
    for (const RoundTimes& round : ranks.rows[i].arms[arm].rounds) end = std::max(end, round.placed);
  }
  return end;
}

std::string rounds_legend() {
  const auto item = [](const char* kind, const char* words) {
    return fmt::format(
        "<li><svg width=\"18\" height=\"14\" aria-hidden=\"true\"><rect x=\"0.5\" y=\"0.5\" width=\"17\" "
        "height=\"13\" class=\"{} edge\"/></svg> {}</li>",
        kind, words);
  };
  return "<ul class=\"legend\">" + item("c0", "pack (first line)") +
         item("c4", "under way (the two between)") + item("c2", "place (last line)") + "</ul>\n";
}

std::string rounds_figure(const Ranks& ranks, std::size_t arm, const std::vector<std::size_t>& rows,
                          double end) {
  std::string html, more;
  for (const std::size_t i : rows) {
    const Rank& rank = ranks.rows[i];
    html += row_html(rank, rank.arms[arm], rows.size() > 1 && rank.number == ranks.straggler[arm], end);
  }
  if (rows.size() < ranks.rows.size())
    more = fmt::format(", the {} slowest of {} ranks", rows.size(), ranks.rows.size());
  return fmt::format(
      "<figure><p class=\"arm\"><span class=\"dot {0}\"></span> "
      "<strong>{0}</strong>{1}</p>\n{2}{3}</figure>\n",
      kArms[arm], more, html, time_axis(end));
}

}  // namespace

std::string rounds_section(const Result& result) {
  if (!result.ranks) return "";
  std::array<std::vector<std::size_t>, 2> rows;
  std::array<double, 2> ends{};
  for (std::size_t arm = 0; arm < kArms.size(); ++arm) {
    rows[arm] = drawn_rows(*result.ranks, arm);
    ends[arm] = end_of_rounds(*result.ranks, rows[arm], arm);
  }
  constexpr double kAlike = 3;  // times: arms further apart have a scale each
  const double longer = std::max(ends[0], ends[1]), shorter = std::min(ends[0], ends[1]);
  if (longer <= 0) return "";
  const bool one_scale = longer <= kAlike * shorter;
  std::string html;
  for (std::size_t arm = 0; arm < kArms.size(); ++arm) {
    if (ends[arm] > 0) html += rounds_figure(*result.ranks, arm, rows[arm], one_scale ? longer : ends[arm]);
  }
  return section(
      "rounds", "Rounds",
      rounds_legend() + html +
          fmt::format("<p class=\"small\">The last measured refit of each arm, from the common start{}. "
                      "Every other round under way stands a line lower; hidden is the share of the "
                      "time with a round under way in which the rank packed or placed another. "
                      "\u25b6 marks the rank with the slowest median.</p>\n",
                      one_scale ? ", both on one scale" : ""));
}

}  // namespace refit::page
