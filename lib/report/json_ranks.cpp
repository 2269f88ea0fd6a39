// Every rank's part.
#include "refit/base/digest.hpp"
#include "refit/reshard/report.hpp"
#include "report/json_parts.hpp"
#include "report/json_values.hpp"
#include "report/rank_figures.hpp"

namespace refit::report {
namespace {

OrderedJson stages_json(const std::vector<run::StageSamples>& stages) {
  OrderedJson json = OrderedJson::array();
  for (const run::StageSamples& stage : stages) {
    json.push_back({{"name", stage.name},
                    {"seconds", numbers(stage.seconds)},
                    {"median_s", optional(median_of(stage.seconds))},
                    {"bytes", stage.bytes},
                    {"launches", stage.launches}});
  }
  return json;
}

OrderedJson rounds_json(const RankFigures& figures) {
  OrderedJson rounds = OrderedJson::array();
  for (const ranks::RoundTimes& round : figures.arm->rounds) {
    rounds.push_back({{"pack_s", number(round.pack)},
                      {"start_s", number(round.start)},
                      {"arrived_s", number(round.arrived)},
                      {"placed_s", number(round.placed)}});
  }
  return {{"exchanging_s", optional(figures.exchanging)},
          {"hidden_s", optional(figures.hidden)},
          {"rounds", std::move(rounds)}};
}

OrderedJson arm_json(const RankFigures& figures, bool verified) {
  const ranks::RankArm& arm = *figures.arm;
  return {{"seconds", numbers(arm.seconds)},
          {"median_s", optional(figures.step)},
          {"unattributed",
           {{"seconds", numbers(arm.unattributed)},
            {"median_s", optional(figures.unattributed)},
            {"share", optional(figures.unattributed_share)}}},
          {"stages", stages_json(arm.stages)},
          {"timeline", rounds_json(figures)},
          {"sent_bytes", arm.sent},
          {"received_bytes", arm.received},
          {"peak_extra_bytes", arm.peak_extra_bytes},
          {"most_extra_bytes", arm.most_extra_bytes},
          {"floor_bytes", arm.floor_bytes},
          {"link_bytes", arm.link_bytes},
          {"parameters_digest", arm.parameters_digest == 0 ? OrderedJson(nullptr)
                                                           : OrderedJson(digest_hex(arm.parameters_digest))},
          {"verified", verified ? verify_json(arm.verdict) : OrderedJson(nullptr)}};
}

OrderedJson straggler_json(const RankArmFigures& figures) {
  const RankFigures* straggler = figures.straggler();
  return straggler == nullptr ? OrderedJson(nullptr) : OrderedJson(straggler->row->rank);
}

}  // namespace

OrderedJson scenario_ranks_json(const scenario::Ranks& ranks) {
  return {{"count", ranks.processes()},
          {"simulated_rank", ranks.simulated ? OrderedJson(*ranks.simulated) : OrderedJson(nullptr)},
          {"train", reshard::to_string(ranks.trainer)},
          {"gen", reshard::to_string(ranks.generator)},
          {"colocated", ranks.colocated},
          {"trainer_form", std::string(reshard::name_of(ranks.form))}};
}

OrderedJson ranks_json(const Report& report) {
  const ranks::Result& result = *report.ranks;
  const RankArmFigures control = derive(result, &ranks::RankRow::control);
  const RankArmFigures treatment = derive(result, &ranks::RankRow::treatment);
  OrderedJson rows = OrderedJson::array();
  for (std::size_t i = 0; i < result.ranks.size(); ++i) {
    const ranks::RankRow& row = result.ranks[i];
    rows.push_back(
        {{"rank", row.rank},
         {"host", row.host},
         {"source_bytes", row.source_bytes},
         {"destination_bytes", row.destination_bytes},
         {"control", arm_json(control.ranks[i], report.result->control.verified_refits > 0)},
         {"treatment", arm_json(treatment.ranks[i], report.result->treatment.verified_refits > 0)}});
  }
  return {
      {"count", report.scenario.ranks->processes()},
      {"simulated_rank", result.simulated_rank ? OrderedJson(*result.simulated_rank) : OrderedJson(nullptr)},
      {"train", reshard::to_string(result.trainer)},
      {"gen", reshard::to_string(result.generator)},
      {"colocated", report.scenario.ranks->colocated},
      {"exchange", result.exchange},
      {"rounds", {{"control", result.rounds_control}, {"treatment", result.rounds_treatment}}},
      {"notes", result.notes},
      {"rows", std::move(rows)},
      {"straggler", {{"control", straggler_json(control)}, {"treatment", straggler_json(treatment)}}}};
}

}  // namespace refit::report
