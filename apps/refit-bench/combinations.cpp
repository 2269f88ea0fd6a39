// Which switches are factors, and whether all their combinations can run.
#include "combinations.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/cli.hpp"
#include "refit/base/error.hpp"
#include "refit/plan/switches.hpp"
#include "refit/ranks/ranks.hpp"

namespace refit::apps {
namespace {

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

std::vector<ablation::Setting> settings_of(const scenario::Scenario& scenario) {
  const auto unused = [&](const scenario::Arm& arm) {
    return scenario.ranks ? ranks::unused_switches(arm.switches) : plan::inapplicable(arm.switches);
  };
  const std::vector<std::string> by_control = unused(scenario.control),
                                 by_treatment = unused(scenario.treatment);
  const auto control = plan::to_pairs(scenario.control.switches),
             treatment = plan::to_pairs(scenario.treatment.switches);
  const run::HostTraffic& host = scenario.host_traffic;
  std::vector<ablation::Setting> settings;
  for (std::size_t i = 0; i < control.size(); ++i) {
    ablation::Setting setting{control[i].first, control[i].second, treatment[i].second};
    const std::string& name = setting.name;
    if (has(by_control, name) && has(by_treatment, name)) {
      setting.unused_because = "neither arm looks at it";
    } else if ((name == "offload" && host.offload_full_bytes == 0) ||
               (name == "reference_swap" && host.reference_swap_bytes == 0)) {
      setting.unused_because = "there is no host traffic that it acts on";
    }
    settings.push_back(std::move(setting));
  }
  return settings;
}

void check_combination(const scenario::Scenario& scenario, const Combinations& chosen,
                       ablation::Subset subset) {
  try {
    plan::check_compatible(combined(scenario, chosen.factors, subset).switches);
  } catch (const Error& error) {
    fail_input(
        fmt::format("--ablation {} needs the combination \"{}\" over the control, which cannot run: {} Join "
                    "with '+' what "
                    "has to move together, as in --factors prequantize+pipeline",
                    ablation::name_of(chosen.method), ablation::label(chosen.factors, subset), error.what()));
  }
}

}  // namespace

Combinations choose_combinations(const scenario::Scenario& scenario, const AblationOptions& asked) {
  Combinations chosen;
  chosen.method = from_option("--ablation", [&] { return ablation::parse_method(*asked.method); });
  const std::vector<ablation::Setting> settings = settings_of(scenario);
  chosen.factors = from_option(asked.factors.empty() ? "--ablation" : "--factors",
                               [&] { return ablation::choose_factors(settings, asked.factors); });
  chosen.subsets =
      from_option("--ablation", [&] { return ablation::needed(chosen.method, chosen.factors.size()); });
  for (const ablation::Setting& setting : settings) {
    const auto is_it = [&](const ablation::Setting& its) { return its.name == setting.name; };
    const bool of_factor = std::ranges::any_of(chosen.factors, [&](const ablation::Factor& factor) {
      return std::ranges::any_of(factor.settings, is_it);
    });
    if (setting.differs() && !of_factor) chosen.left_out.push_back(setting);
  }
  chosen.phases.emplace_back(kTransferPhase);
  if (scenario.host_traffic.offload_full_bytes > 0 || scenario.host_traffic.reference_swap_bytes > 0) {
    chosen.phases.emplace_back(kTotalPhase);
    chosen.phases.emplace_back(kSwapPhase);
  }
  check_combination(scenario, chosen, 0);
  for (const ablation::Subset subset : chosen.subsets) check_combination(scenario, chosen, subset);
  return chosen;
}

scenario::Arm combined(const scenario::Scenario& scenario, const std::vector<ablation::Factor>& factors,
                       ablation::Subset subset) {
  scenario::Arm arm = scenario.control;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    if ((subset >> i & 1) == 0) continue;
    for (const ablation::Setting& setting : factors[i].settings) {
      plan::set_switch(arm.switches, setting.name, setting.treatment);
      if (setting.name == "buffer_size") arm.buffer_size_fixed = scenario.treatment.buffer_size_fixed;
    }
  }
  return arm;
}

}  // namespace refit::apps
