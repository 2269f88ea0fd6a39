// The machine and the build that a report's numbers belong to: an allow-list, never the whole environment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace refit::report {

/// What only the build knows.
struct BuildInfo {
  std::string version, compiler, build_type;
  std::optional<std::string> git_commit;  ///< nothing when it was not built in a git checkout
  std::optional<bool> git_dirty;
};

struct Environment {
  BuildInfo build;
  std::string cpu_model, kernel;  ///< empty when the machine does not say
  unsigned logical_cpus = 0, usable_cpus = 0;
  std::uint64_t memory_total_bytes = 0;
  std::vector<std::string> argv;
  std::string date_utc;  ///< 2026-01-31T12:00:00Z
};

[[nodiscard]] Environment collect_environment(BuildInfo build, std::vector<std::string> argv);

/// CPUs that this process may use: its affinity mask, narrowed by the CPU quota of its cgroup; at least 1.
[[nodiscard]] unsigned usable_cpus();

}  // namespace refit::report
