// What JSON and table both show: every number derived from the samples, computed once.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "refit/device/backend.hpp"
#include "refit/report/report.hpp"
#include "refit/time/statistics.hpp"

namespace refit::report {

enum class Source : std::uint8_t {
  measured,       ///< timed here
  stand_in,       ///< timed here, on host memory in place of a device
  published,      ///< quoted
  not_published,  ///< neither run here nor published
};
[[nodiscard]] std::string_view name_of(Source source) noexcept;

struct PhaseFigures {
  Source source = Source::not_published;
  std::vector<double> samples;
  std::optional<Summary> summary;  ///< none without samples
  std::uint64_t floor_bytes = 0, link_bytes = 0;
  std::optional<double> floor;  ///< seconds: memory traffic or links, whichever takes longer
  bool link_bound = false;      ///< the links take longer
  std::optional<double> x_floor;
  std::optional<double> x_direct_floor;  ///< of a staged transfer
  std::optional<double>
      x_own_floor;  ///< of a staged transfer: over a copy of every byte that its stages move
  std::optional<double> extrapolated;  ///< none unless a part was replayed
  std::optional<double> published;
  std::string published_source;
  bool moved_nothing = false;  ///< host traffic that the scenario has none of: what was timed is the timer
};

struct StageFigures {
  std::string key;  ///< the stage's name; "generator.NAME" where the trainer has it too
  const run::StageSamples* samples = nullptr;
  Summary summary;
  std::optional<double> x_floor;  ///< of the device's own time where that is known
};

struct RoleFigures {
  const run::ArmResult::RoleTime* time = nullptr;
  std::optional<double> median;  ///< of the unattributed seconds
  std::optional<double> share;   ///< all unattributed seconds over all seconds
};

struct ArmFigures {
  std::vector<std::pair<std::string, PhaseFigures>> phases;  ///< both arms: the same keys in the same order
  std::vector<StageFigures> stages;
  RoleFigures trainer, generator;  ///< with ranks: the slowest one, and no samples
};

struct Comparison {
  Source source = Source::not_published;
  std::optional<double> control, treatment;  ///< medians of what was timed, else what was published
  std::optional<double> change;              ///< treatment over control, minus 1
  std::optional<double> ratio;               ///< treatment over control
  std::optional<Interval> ci95;              ///< of the ratio; none for quoted figures
};

struct Figures {
  ArmFigures control, treatment;
  bool device_times = false;  ///< some stage was timed by the device itself
  std::vector<std::pair<std::string, Comparison>> comparison;
};

/// A budget that nothing limits: a dry run for a GPU that is not here.
inline constexpr std::uint64_t kNoBudget = std::numeric_limits<std::uint64_t>::max();

[[nodiscard]] inline bool is_gpu(const run::BenchResult& result) noexcept {
  return result.backend.kind != device::Kind::cpu;
}

/// Whether the machine said anything of its clocks.
[[nodiscard]] bool are_known(const device::Clocks& clocks) noexcept;

/// Nothing where there is no time at all.
[[nodiscard]] std::optional<double> share_of(const std::vector<double>& part,
                                             const std::vector<double>& wall);

/// Whether many ranks do what is reported: one control thread each, with the roles of both sides.
[[nodiscard]] inline bool on_ranks(const Report& report) noexcept {
  return report.scenario.ranks.has_value();
}

/// "rank 0": whose copies and clocks are shown. With ranks only.
[[nodiscard]] std::string reporting_rank(const Report& report);

/// Switches that nobody looks at.
[[nodiscard]] std::vector<std::string> inapplicable(const Report& report, const plan::Switches& switches);

/// Nothing without samples.
[[nodiscard]] std::optional<double> median_of(const std::vector<double>& samples);

/// Points into `report`, which has to outlive it. Without a result everything measured is empty.
[[nodiscard]] Figures derive(const Report& report);

}  // namespace refit::report
