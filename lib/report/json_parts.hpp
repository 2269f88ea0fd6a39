// The parts of the report's JSON, schema refit-bench/1.
#pragma once

#include "base/json.hpp"
#include "refit/plan/switches.hpp"
#include "refit/report/report.hpp"
#include "report/figures.hpp"

namespace refit::report {

// json_plan.cpp: what was asked for, and what it amounts to
[[nodiscard]] OrderedJson scenario_json(const scenario::Scenario& scenario);
[[nodiscard]] OrderedJson model_json(const Report& report);
[[nodiscard]] OrderedJson replayed_json(const scenario::Replay& replay);
[[nodiscard]] OrderedJson settings_json(const Report& report);
[[nodiscard]] OrderedJson switches_json(const plan::Switches& switches);

// json_arms.cpp: what was measured
[[nodiscard]] OrderedJson arms_json(const Report& report, const Figures& figures);
[[nodiscard]] OrderedJson comparison_json(const Figures& figures);
[[nodiscard]] OrderedJson verify_json(const verify::Verdict& verdict);

// json_ranks.cpp: by whom, where many did it
[[nodiscard]] OrderedJson scenario_ranks_json(const scenario::Ranks& ranks);
[[nodiscard]] OrderedJson ranks_json(const Report& report);

// json_machine.cpp: on what
[[nodiscard]] OrderedJson device_json(const run::BenchResult& result);
[[nodiscard]] OrderedJson copy_json(const run::CopyBandwidth& copy);
[[nodiscard]] OrderedJson environment_json(const Environment& environment);

}  // namespace refit::report
