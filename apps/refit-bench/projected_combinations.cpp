// Every combination is an arm of a projection.
#include "projected_combinations.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "projected.hpp"
#include "refit/model/inventory.hpp"
#include "refit/project/project.hpp"

namespace refit::apps {
namespace {

using ablation::Subset;

/// How far the figures are to be believed.
std::vector<std::string> bases_of(const project::Platform& platform, const project::Stack& stack) {
  std::map<project::Basis, std::string> figures;
  const auto add = [&](std::string_view name, const project::Figure& figure) {
    std::string& names = figures[figure.basis];
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  };
  for (std::size_t i = 0; i < project::kCosts; ++i) {
    add(project::name_of(static_cast<project::Cost>(i)), stack.costs[i].figure);
  }
  add("message_share", stack.message_share.figure);
  add("offload_share", stack.offload_share.figure);
  add("pageable_share", stack.pageable_share.figure);
  std::vector<std::string> sentences;
  for (const auto& [basis, names] : figures) {
    sentences.push_back(fmt::format("stack {}, {}: {}", stack.name, project::name_of(basis), names));
  }
  sentences.push_back(fmt::format("platform {}, {}: host_cost", platform.name,
                                  project::name_of(platform.host_cost.figure.basis)));
  for (const auto& [phase, error] : stack.leave_out) {
    sentences.push_back(fmt::format(
        "of published {}, eight of ten lie within a factor of {:.2f} of a fit that had not seen them", phase,
        std::exp(error)));
  }
  return sentences;
}

double seconds_of(const project::ProjectedArm& arm, std::string_view phase) {
  if (phase == kTransferPhase) return arm.transfer.s;
  return phase == kTotalPhase ? arm.prepare.s : arm.reference_swap_s;
}

}  // namespace

ablation::Projected project_combinations(const BenchOptions& options, const scenario::Scenario& scenario,
                                         const Combinations& chosen) {
  const project::Platform platform = chosen_platform(options);
  const project::Stack stack = chosen_stack(options);
  const model::Inventory model = model::parse_inventory(scenario.config_json, scenario.config_place);
  ablation::Projected projected{.platform = platform.name,
                                .stack = stack.name,
                                .rests_on = bases_of(platform, stack),
                                .assumed = {},
                                .phases = {}};
  std::map<Subset, project::ProjectedArm> arms;
  const auto add = [&](Subset subset) {
    scenario::Scenario one = scenario;
    one.control = combined(scenario, chosen.factors, subset);
    const project::Projector projector(one, model, platform, stack, std::nullopt,
                                       project::Projector::Arms::control);
    arms.emplace(subset, projector.arm(true, platform, stack));
    projected.assumed = projector.assumed();
  };
  add(0);
  for (const Subset subset : chosen.subsets) add(subset);
  for (const std::string& phase : chosen.phases) {
    const double control = seconds_of(arms.at(0), phase);
    ablation::Worths worths;
    for (const Subset subset : chosen.subsets) {
      worths[subset] = {.s = seconds_of(arms.at(subset), phase) - control};
    }
    projected.phases.push_back(
        {phase, control, ablation::attribute(chosen.method, chosen.factors.size(), worths)});
  }
  return projected;
}

}  // namespace refit::apps
