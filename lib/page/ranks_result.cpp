// Every rank's part of a result.
#include <algorithm>

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

RankArm read_rank_arm(const JsonNode& node, std::uint64_t rank) {
  RankArm arm;
  arm.median = find_number(node, "median_s");
  for (const JsonNode& stage : node.at("stages").elements()) {
    arm.stages.emplace_back(stage.at("name").text(), find_number(stage, "median_s").value_or(0));
  }
  std::stable_sort(arm.stages.begin(), arm.stages.end(), [](const auto& a, const auto& b) {
    return place_of_stage(a.first) < place_of_stage(b.first);
  });
  arm.sent = of_others(node.at("sent_bytes"), rank);
  arm.received = of_others(node.at("received_bytes"), rank);
  arm.peak_extra_bytes = node.at("peak_extra_bytes").count();
  if (const auto most = node.find("most_extra_bytes")) arm.most_extra_bytes = most->count();
  arm.verdict = read_verdict(node.find("verified"));
  return arm;
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
  for (std::size_t arm = 0; arm < kArms.size(); ++arm) {
    if (const auto rounds = find(node, {"rounds", kArms[arm]})) ranks.rounds[arm] = rounds->count();
    if (const auto slowest = find(node, {"straggler", kArms[arm]})) ranks.straggler[arm] = slowest->count();
  }
  return ranks;
}

}  // namespace refit::page
