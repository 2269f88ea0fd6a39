// What a refit would take elsewhere: --platform, --stack, --project-only, --validate-projection.
#pragma once

#include "options.hpp"
#include "refit/project/project.hpp"
#include "refit/report/report.hpp"

namespace refit::apps {

/// The scenario of the command line with the ranks to project: --train and --gen, else its cluster, else its
/// ranks.
[[nodiscard]] scenario::Scenario projected_scenario(const BenchOptions& options);
/// --platform and --stack. Error(input) for names that nobody has, and for "this" where nothing is measured.
[[nodiscard]] project::Platform chosen_platform(const BenchOptions& options);
[[nodiscard]] project::Stack chosen_stack(const BenchOptions& options);

/// Runs nothing: writes the projection as table or JSON and ends.
int project_only(const BenchOptions& options);
/// Projects what was published and what was measured, and says how far off that is.
int validate_projection(const BenchOptions& options);

/// Fills in `report.projection`, where --platform asks for one.
void project_beside(const BenchOptions& options, report::Report& report);

}  // namespace refit::apps
