// Every rank's part of a result.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "page/result.hpp"

namespace refit::page {
namespace {

/// Of a list with one entry a rank, without the rank's own.
std::uint64_t of_others(const JsonNode& node, std::uint64_t own) {
  std::uint64_t sum = 0;
  const auto elements = node.elements();
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (i != own) sum += elements[i].count();
  }
  return sum;
}

void read_rounds(const JsonNode& timeline, RankArm& arm) {
  arm.exchanging = find_number(timeline, "exchanging_s");
  arm.hidden = find_number(timeline, "hidden_s");
  for (const JsonNode& round : timeline.at("rounds").elements()) {
    RoundTimes times{find_number(round, "pack_s").value_or(0), 0, 0, 0};
    times.start = std::max(times.pack, find_number(round, "start_s").value_or(0));
    times.arrived = std::max(times.start, find_number(round, "arrived_s").value_or(0));
    times.placed = std::max(times.arrived, find_number(round, "placed_s").value_or(0));
    arm.rounds.push_back(times);
  }
}

RankArm read_rank_arm(const JsonNode& node, std::uint64_t rank) {
  RankArm arm;
  arm.median = find_number(node, "median_s");
  for (const JsonNode& stage : node.at("stages").elements()) {
    arm.stages.emplace_back(stage.at("name").text(), find_number(stage, "median_s").value_or(0));
  }
  std::stable_sort(arm.stages.begin(), arm.stages.end(), [](const auto& a, const auto& b) {
    return place_of_stage(a.first) < place_of_stage(b.first);
  });
  if (const auto timeline = node.find("timeline")) read_rounds(*timeline, arm);
  arm.sent = of_others(node.at("sent_bytes"), rank);
  arm.received = of_others(node.at("received_bytes"), rank);
  arm.peak_extra_bytes = node.at("peak_extra_bytes").count();
  if (const auto most = node.find("most_extra_bytes")) arm.most_extra_bytes = most->count();
  arm.verdict = read_verdict(node.find("verified"));
  return arm;
}

/// Each is a line of the map with a cell for every rank.
void require_few_stages(const JsonNode& rows, const Ranks& ranks) {
  constexpr std::size_t kMostStages = 256;
  std::set<std::string_view> names;
  for (const Rank& rank : ranks.rows) {
    for (const RankArm& arm : rank.arms) {
      for (const auto& [name, seconds] : arm.stages) names.insert(name);
    }
  }
  if (names.size() > kMostStages)
    rows.fail(fmt::format("name {} stages; at most {} are drawn", names.size(), kMostStages));
}

}  // namespace

Ranks read_ranks(const JsonNode& node) {
  Ranks ranks;
  ranks.count = node.at("count").count();
  if (const auto simulated = node.find("simulated_rank")) ranks.simulated = simulated->count();
  ranks.train = node.at("train").text();
  ranks.gen = node.at("gen").text();
  ranks.colocated = node.at("colocated").flag();
  ranks.exchange = text_or(node.find("exchange"), "");
  if (const auto notes = node.find("notes")) {
    for (const JsonNode& note : notes->elements()) ranks.notes.push_back(note.text());
  }
  for (const JsonNode& row : node.at("rows").elements()) {
    Rank& rank = ranks.rows.emplace_back();
    rank.number = row.at("rank").count();
    rank.host = text_or(row.find("host"), "");
    for (std::size_t arm = 0; arm < kArms.size(); ++arm) {
      rank.arms[arm] = read_rank_arm(row.at(kArms[arm]), rank.number);
    }
  }
  require_few_stages(node.at("rows"), ranks);
  for (std::size_t arm = 0; arm < kArms.size(); ++arm) {
    if (const auto rounds = find(node, {"rounds", kArms[arm]})) ranks.rounds[arm] = rounds->count();
    if (const auto slowest = find(node, {"straggler", kArms[arm]})) ranks.straggler[arm] = slowest->count();
  }
  return ranks;
}

}  // namespace refit::page
