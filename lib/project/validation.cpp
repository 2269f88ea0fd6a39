// Leave one table out, for each table.
#include "refit/project/validation.hpp"

#include <algorithm>
#include <cmath>

#include "project/fit.hpp"
#include "project/phases.hpp"
#include "refit/base/error.hpp"
#include "refit/time/statistics.hpp"

namespace refit::project {
namespace {

/// A step's other phases are as published; what is projected of it is prepare_for_generation.
double seconds_of(std::string_view phase, const Projected& here, const Table& table, bool control) {
  if (phase == kTransfer) return here.transfer_s;
  if (phase == kPrepare) return here.prepare_s;
  return here.prepare_s + *published(table, kStep, control) - *published(table, kPrepare, control);
}

void add_rows(const CountedTable& counted, const Costs& left_out, const Costs& all, Validation& validation) {
  const Table& table = *counted.table;
  for (const std::string_view phase : {kTransfer, kPrepare, kStep}) {
    Change change{table.title, std::string(phase), 0, 0};
    double of_published[2] = {0, 0}, of_projected[2] = {0, 0};
    for (const bool control : {true, false}) {
      const std::optional<double> known = published(table, phase, control);
      if (!known) break;
      Row row{.table = table.title, .phase = std::string(phase), .control = control, .published_s = *known};
      row.projected_s = seconds_of(phase, projected(counted, control, left_out), table, control);
      row.fitted_s = seconds_of(phase, projected(counted, control, all), table, control);
      of_published[control ? 0 : 1] = row.published_s;
      of_projected[control ? 0 : 1] = row.projected_s;
      validation.rows.push_back(std::move(row));
    }
    if (of_published[0] == 0 || of_published[1] == 0) continue;
    change.published = of_published[1] / of_published[0] - 1;
    change.projected = of_projected[1] / of_projected[0] - 1;
    validation.changes.push_back(std::move(change));
  }
}

void judge(Validation& validation) {
  std::vector<double> errors;
  std::map<std::string, std::vector<double>> logarithms;
  for (const Row& row : validation.rows) {
    errors.push_back(std::fabs(row.error()));
    logarithms[row.phase].push_back(std::fabs(std::log(row.projected_s / row.published_s)));
  }
  validation.median_error = summarize(errors).median;
  for (const double error : errors) validation.worst_error = std::max(validation.worst_error, error);
  for (const Change& change : validation.changes) {
    validation.worst_change = std::max(validation.worst_change, std::fabs(change.difference()));
  }
  for (const MeasuredRow& row : validation.measured) {
    if (!row.fitted) validation.worst_measured = std::max(validation.worst_measured, std::fabs(row.error()));
  }
  validation.stack.leave_out.clear();
  for (auto& [phase, values] : logarithms) {
    std::sort(values.begin(), values.end());
    validation.stack.leave_out.emplace(phase, quantile(values, 0.8));
  }
}

model::Inventory model_of(const scenario::Scenario& scenario) {
  return model::parse_inventory(scenario.config_json, scenario.config_place);
}

}  // namespace

Validation validate(const Tables& tables, const Stack& stack, const Stack& own) {
  Costs priors{stack, {}};
  std::vector<CountedTable> counted;
  for (const Table& table : tables.published) {
    const auto platform = priors.platforms.try_emplace(table.platform, find_platform(table.platform)).first;
    CountedTable one{&table, {}};
    for (const scenario::Scenario& scenario : table.scenarios) {
      one.projectors.emplace_back(scenario, model_of(scenario), platform->second, stack);
    }
    counted.push_back(std::move(one));
  }
  std::vector<const CountedTable*> all;
  for (const CountedTable& table : counted) all.push_back(&table);
  const Costs fitted = fit(all, priors);
  Validation validation;
  for (const CountedTable& table : counted) {
    std::vector<const CountedTable*> others = all;
    std::erase(others, &table);
    add_rows(table, fit(others, priors), fitted, validation);
  }
  if (validation.rows.empty()) fail_input("no scenario of the published tables has published seconds");
  for (const Measured& run : tables.measured) {
    const Platform platform = find_platform(run.platform);
    const Projector projector(run.scenario, model_of(run.scenario), platform, own, run.peer);
    validation.measured.push_back(
        {run.what, run.source, run.median_s, projector.arm(true, platform, own).transfer.s, run.fitted});
  }
  validation.stack = fitted.stack;
  for (const auto& [name, platform] : fitted.platforms) validation.platforms.push_back(platform);
  judge(validation);
  return validation;
}

}  // namespace refit::project
