// refit-ablation/1.
#include "base/json.hpp"
#include "refit/ablation/report.hpp"

namespace refit::ablation {
namespace {

OrderedJson estimate_json(const std::optional<Estimate>& estimate) {
  if (!estimate) return nullptr;
  OrderedJson json{{"value_s", estimate->s}, {"low_s", nullptr}, {"high_s", nullptr}};
  if (estimate->ci95) {
    json["low_s"] = estimate->ci95->low;
    json["high_s"] = estimate->ci95->high;
  }
  return json;
}

OrderedJson settings_json(const std::vector<Setting>& settings) {
  OrderedJson list = OrderedJson::array();
  for (const Setting& setting : settings) {
    list.push_back({{"name", setting.name}, {"control", setting.control}, {"treatment", setting.treatment}});
  }
  return list;
}

OrderedJson phase_json(const std::vector<Factor>& factors, const Phase& phase) {
  const Attribution& found = phase.attribution;
  OrderedJson effects = OrderedJson::array(), pairs = OrderedJson::array(),
              combinations = OrderedJson::array();
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const Effect& effect = found.effects.at(i);
    effects.push_back({{"factor", factors[i].name},
                       {"alone", estimate_json(effect.alone)},
                       {"last", estimate_json(effect.last)},
                       {"shapley", estimate_json(effect.shapley)}});
  }
  for (const Pair& pair : found.pairs) {
    pairs.push_back({{"factors", {factors.at(pair.first).name, factors.at(pair.second).name}},
                     {"interaction", estimate_json(pair.interaction)}});
  }
  for (const auto& [subset, change] : found.combinations) {
    combinations.push_back({{"factors", names_of(factors, subset)}, {"change", estimate_json(change)}});
  }
  OrderedJson json{{"control_s", nullptr},
                   {"whole", estimate_json(found.whole)},
                   {"sum", estimate_json(found.sum)},
                   {"interaction", estimate_json(found.interaction)},
                   {"effects", std::move(effects)},
                   {"pairs", std::move(pairs)},
                   {"combinations", std::move(combinations)}};
  if (phase.control_s) json["control_s"] = *phase.control_s;
  return json;
}

OrderedJson phases_json(const std::vector<Factor>& factors, const std::vector<Phase>& phases) {
  OrderedJson json = OrderedJson::object();
  for (const Phase& phase : phases) json[phase.name] = phase_json(factors, phase);
  return json;
}

OrderedJson measured_json(const std::vector<Factor>& factors, const Measured& measured) {
  OrderedJson missing = OrderedJson::array(), benches = OrderedJson::array();
  for (const Subset subset : measured.phases.front().attribution.missing) {
    missing.push_back(names_of(factors, subset));
  }
  for (const Bench& bench : measured.benches) {
    benches.push_back(
        {{"factors", names_of(factors, bench.subset)}, {"result", OrderedJson::parse(bench.result)}});
  }
  return {{"bootstrap", {{"draws", kDraws}, {"seed", kSeed}, {"least_pairs", kLeastPairs}}},
          {"missing", std::move(missing)},
          {"phases", phases_json(factors, measured.phases)},
          {"benches", std::move(benches)}};
}

OrderedJson projected_json(const std::vector<Factor>& factors, const Projected& projected) {
  return {{"platform", projected.platform},
          {"stack", projected.stack},
          {"rests_on", projected.rests_on},
          {"assumed", projected.assumed},
          {"phases", phases_json(factors, projected.phases)}};
}

}  // namespace

std::string to_json(const Result& result) {
  OrderedJson factors = OrderedJson::array();
  for (const Factor& factor : result.factors) {
    factors.push_back({{"name", factor.name}, {"switches", settings_json(factor.settings)}});
  }
  OrderedJson json{{"schema", "refit-ablation/1"},
                   {"scenario", result.scenario},
                   {"method", name_of(result.method)},
                   {"factors", std::move(factors)},
                   {"left_as_in_control", settings_json(result.left_out)},
                   {"measured", nullptr},
                   {"projected", nullptr}};
  if (result.measured) json["measured"] = measured_json(result.factors, *result.measured);
  if (result.projected) json["projected"] = projected_json(result.factors, *result.projected);
  return json.dump(2) + "\n";
}

}  // namespace refit::ablation
