// What a projection and a validation are as JSON.
#include "project/json.hpp"

#include <cmath>

#include "project/phases.hpp"
#include "refit/project/project.hpp"
#include "refit/project/validation.hpp"

namespace refit::project {
namespace {

OrderedJson seconds_json(const Seconds& seconds) {
  OrderedJson json{{"projected_s", seconds.s}, {"low_s", nullptr}, {"high_s", nullptr}};
  if (seconds.low_s) json["low_s"] = *seconds.low_s;
  if (seconds.high_s) json["high_s"] = *seconds.high_s;
  return json;
}

OrderedJson arm_json(const ProjectedArm& arm) {
  OrderedJson switches = OrderedJson::object(), critical = OrderedJson::object();
  for (const auto& [name, value] : plan::to_pairs(arm.switches)) switches[name] = value;
  for (const auto& [part, seconds] : arm.critical) critical[part] = seconds;
  OrderedJson phases{{kTransfer, seconds_json(arm.transfer)}, {kPrepare, seconds_json(arm.prepare)}};
  phases[std::string(kStep)] = arm.step ? seconds_json(*arm.step) : OrderedJson(nullptr);
  OrderedJson json{{"switches", std::move(switches)},
                   {"phases", std::move(phases)},
                   {"reference_swap_s", arm.reference_swap_s},
                   {"critical_path_s", std::move(critical)},
                   {"buckets", arm.buckets},
                   {"floor_s", arm.floor_s},
                   {"slowest_rank", nullptr}};
  if (arm.slowest_rank) json["slowest_rank"] = *arm.slowest_rank;
  return json;
}

OrderedJson figure_json(const Figure& figure) {
  return {{"value", figure.value}, {"basis", name_of(figure.basis)}, {"source", figure.source}};
}

OrderedJson published_json(const scenario::Scenario& scenario) {
  OrderedJson json = OrderedJson::object();
  for (const std::string_view phase : {kTransfer, kPrepare, kStep}) {
    const auto found = scenario.phases.find(std::string(phase));
    OrderedJson one{{"control_s", nullptr}, {"treatment_s", nullptr}, {"source", nullptr}};
    if (found != scenario.phases.end()) {
      if (found->second.control_s) one["control_s"] = *found->second.control_s;
      if (found->second.treatment_s) one["treatment_s"] = *found->second.treatment_s;
      one["source"] = found->second.source;
    }
    json[std::string(phase)] = std::move(one);
  }
  return json;
}

OrderedJson costs_json(const Stack& stack) {
  OrderedJson costs = OrderedJson::object();
  for (std::size_t cost = 0; cost < kCosts; ++cost) {
    costs[std::string(name_of(static_cast<Cost>(cost)))] = figure_json(stack.costs[cost].figure);
  }
  return costs;
}

}  // namespace

OrderedJson projection_json(const Projection& projection, const scenario::Scenario& scenario) {
  const Platform& platform = projection.platform;
  return {
      {"schema", kProjectionSchema},
      {"scenario", {{"name", scenario.name}, {"title", scenario.title}, {"digest", scenario.digest}}},
      {"platform",
       {{"name", platform.name},
        {"title", platform.title},
        {"memory_bandwidth_Bps", figure_json(platform.memory_bandwidth)},
        {"peer_bandwidth_Bps", figure_json(platform.peer_bandwidth)},
        {"network_bandwidth_Bps", figure_json(platform.network_bandwidth)},
        {"host_bandwidth_Bps", figure_json(platform.host_bandwidth)},
        {"host_cost", figure_json(platform.host_cost.figure)}}},
      {"stack",
       {{"name", projection.stack.name},
        {"title", projection.stack.title},
        {"costs_s", costs_json(projection.stack)}}},
      {"cluster", projection.cluster},
      {"assumed", projection.assumed},
      {"arms", {{"control", arm_json(projection.control)}, {"treatment", arm_json(projection.treatment)}}},
      {"published", published_json(scenario)}};
}

std::string to_json(const Projection& projection, const scenario::Scenario& scenario) {
  // Names come from files of users: bytes that are no UTF-8 become U+FFFD.
  return projection_json(projection, scenario).dump(2, ' ', false, OrderedJson::error_handler_t::replace) +
         "\n";
}

std::string to_json(const Validation& validation) {
  OrderedJson rows = OrderedJson::array(), changes = OrderedJson::array(), measured = OrderedJson::array();
  for (const Row& row : validation.rows) {
    rows.push_back({{"table", row.table},
                    {"phase", row.phase},
                    {"arm", row.control ? "control" : "treatment"},
                    {"published_s", row.published_s},
                    {"projected_s", row.projected_s},
                    {"error", row.error()},
                    {"fitted_s", row.fitted_s}});
  }
  for (const Change& change : validation.changes) {
    changes.push_back({{"table", change.table},
                       {"phase", change.phase},
                       {"published", change.published},
                       {"projected", change.projected}});
  }
  for (const MeasuredRow& row : validation.measured) {
    measured.push_back({{"what", row.what},
                        {"source", row.source},
                        {"measured_s", row.measured_s},
                        {"projected_s", row.projected_s},
                        {"error", row.error()},
                        {"fitted", row.fitted}});
  }
  OrderedJson platforms = OrderedJson::object();
  for (const Platform& platform : validation.platforms) {
    platforms[platform.name] = {{"host_cost", platform.host_cost.figure.value}};
  }
  OrderedJson leave_out = OrderedJson::object();
  for (const auto& [phase, error] : validation.stack.leave_out) leave_out[phase] = error;
  OrderedJson json{{"schema", "refit-validation/1"},
                   {"published", std::move(rows)},
                   {"changes", std::move(changes)},
                   {"measured", std::move(measured)},
                   {"median_error", validation.median_error},
                   {"worst_error", validation.worst_error},
                   {"worst_change", validation.worst_change},
                   {"worst_measured", validation.worst_measured},
                   {"goals",
                    {{"median_error", Validation::kMedianGoal},
                     {"worst_error", Validation::kWorstGoal},
                     {"worst_change", Validation::kChangeGoal},
                     {"worst_measured", Validation::kMeasuredGoal}}},
                   {"fitted_to_all",
                    {{"stack", validation.stack.name},
                     {"costs_s", costs_json(validation.stack)},
                     {"message_share", validation.stack.message_share.figure.value},
                     {"offload_share", validation.stack.offload_share.figure.value},
                     {"pageable_share", validation.stack.pageable_share.figure.value},
                     {"leave_out_log_error", std::move(leave_out)},
                     {"platforms", std::move(platforms)}}}};
  return json.dump(2) + "\n";
}

}  // namespace refit::project
