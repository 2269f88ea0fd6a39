// The report as JSON: scenarios/schema/refit-gate-1.schema.json.
#include <cmath>

#include "base/json.hpp"
#include "refit/gate/render.hpp"

namespace refit::gate {
namespace {

OrderedJson number(double value) {
  return std::isfinite(value) ? OrderedJson(value) : OrderedJson(nullptr);
}

OrderedJson optional(const std::optional<double>& value) {
  return value ? number(*value) : OrderedJson(nullptr);
}

OrderedJson known(const std::string& text) {
  return text.empty() ? OrderedJson(nullptr) : OrderedJson(text);
}

OrderedJson interval(const std::optional<Interval>& value) {
  return value ? OrderedJson::array({number(value->low), number(value->high)}) : OrderedJson(nullptr);
}

OrderedJson side(const Side& side) {
  if (side.samples == 0) return nullptr;
  return {{"starts", side.starts},
          {"samples", side.samples},
          {"median", number(side.center)},
          {"spread", number(side.spread)}};
}

OrderedJson needed(const std::optional<Needed>& value) {
  if (!value) return nullptr;
  return {{"more_samples", value->samples}, {"more_starts", value->starts}, {"hopeless", value->hopeless}};
}

OrderedJson json_of(const PhaseResult& phase) {
  const Decision& decision = phase.decision;
  return {{"arm", known(phase.arm)},
          {"phase", phase.phase},
          {"verdict", name_of(decision.verdict)},
          {"baseline_s", side(decision.baseline)},
          {"candidate_s", side(decision.candidate)},
          {"ratio", optional(decision.value)},
          {"ci95", interval(decision.ci95)},
          {"allowed", number(phase.allowed)},
          {"needed", needed(decision.needed)},
          {"reason", known(phase.reason)}};
}

OrderedJson json_of(const LimitResult& limit) {
  const Decision& decision = limit.decision;
  return {{"what", limit.what},
          {"arm", known(limit.arm)},
          {"phase", known(limit.phase)},
          {"verdict", name_of(decision.verdict)},
          {"limit", number(limit.limit)},
          {"value", optional(decision.value)},
          {"ci95", interval(decision.ci95)},
          {"needed", needed(decision.needed)},
          {"reason", known(limit.reason)}};
}

OrderedJson json_of(const Difference& difference) {
  return {{"field", difference.field},
          {"baseline", difference.baseline},
          {"candidate", difference.candidate},
          {"allowed", difference.allowed}};
}

template <typename List>
OrderedJson list(const List& values) {
  OrderedJson array = OrderedJson::array();
  for (const auto& value : values) array.push_back(json_of(value));
  return array;
}

}  // namespace

std::string to_json(const Report& report) {
  const Settings& settings = report.settings;
  const OrderedJson json = {{"schema", "refit-gate/1"},
                            {"verdict", name_of(report.verdict)},
                            {"exit_code", exit_code(report.verdict)},
                            {"baseline", report.baseline},
                            {"candidate", report.candidate},
                            {"limits_file", known(report.limits)},
                            {"settings",
                             {{"max_regression", number(settings.max_regression)},
                              {"phases", settings.of_phase},
                              {"min_effect_s", optional(settings.min_effect_s)},
                              {"only", settings.only},
                              {"arm", known(settings.arm)},
                              {"allow", settings.allow},
                              {"max_unattributed", number(settings.max_unattributed)},
                              {"seed", settings.seed}}},
                            {"phases", list(report.phases)},
                            {"limits", list(report.checked)},
                            {"differences", list(report.differences)},
                            {"faults", report.faults},
                            {"notes", report.notes}};
  // Names come from files of users: bytes that are no UTF-8 become U+FFFD.
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace refit::gate
