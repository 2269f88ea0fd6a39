// What a refit would take elsewhere: --platform, --stack, --project-only, --validate-projection.
#pragma once

#include <optional>

#include "options.hpp"
#include "refit/project/project.hpp"
#include "refit/report/report.hpp"

namespace refit::apps {

/// The command line's scenario with the ranks to project: --train and --gen, else its cluster, else its
/// ranks.
[[nodiscard]] scenario::Scenario projected_scenario(const BenchOptions& options, scenario::Scenario scenario);
/// --platform and --stack. Error(input) for names that nobody has, and for "this" where nothing is measured.
[[nodiscard]] project::Platform chosen_platform(const BenchOptions& options);
[[nodiscard]] project::Stack chosen_stack(const BenchOptions& options);

/// Runs nothing: writes the projection as table or JSON and ends.
int project_only(const BenchOptions& options);
/// Projects what was published and what was measured, and says how far off that is.
int validate_projection(const BenchOptions& options);

/// What --platform asks for beside a bench, found before anything runs.
class ProjectionBeside {
 public:
  ProjectionBeside(const BenchOptions& options, const scenario::Scenario& scenario);
  /// Of the machine itself by what `report` measured; nothing where nobody asked.
  void fill_in(report::Report& report) const;

 private:
  struct Asked {
    scenario::Scenario scenario;
    std::optional<project::Platform> platform;  ///< nothing: the machine itself
    project::Stack stack;
  };
  std::optional<Asked> asked_;
};

}  // namespace refit::apps
