// The sections of the table, each as whole lines.
#pragma once

#include <string>

#include "refit/report/report.hpp"
#include "report/figures.hpp"

namespace refit::report {

/// Phases off and on, the direct floor, and what is extrapolated.
[[nodiscard]] std::string phase_section(const Report& report, const Figures& figures);
/// Stages of both processes, with ranks those of each arm's slowest.
[[nodiscard]] std::string stage_section(const Report& report, const Figures& figures);
/// Every rank's part; only with Report::ranks.
[[nodiscard]] std::string ranks_section(const Report& report);
/// The GPU, its driver and its clocks; nothing for a CPU.
[[nodiscard]] std::string device_section(const Report& report);
/// What travelled, and what verification says.
[[nodiscard]] std::string outcome_section(const Report& report);
/// What a plan amounts to, without a run.
[[nodiscard]] std::string plan_section(const Report& report);

}  // namespace refit::report
