// Projections beside what was published and what was measured here: scenarios/published/tables.json, schema
// refit-tables/1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "refit/project/platform.hpp"
#include "refit/project/project.hpp"
#include "refit/project/stack.hpp"

namespace refit::project {

inline constexpr std::string_view kTablesSchema = "refit-tables/1";

/// One published table. Several scenarios are runs with the same inputs, judged by their mean.
struct Table {
  std::string title, platform;
  std::vector<scenario::Scenario> scenarios;
  /// Standard deviation of the logarithm of what it may be off as a whole: the same refit of 30B on 16 GB200
  /// was published twice, 25 % apart. More for a table of a much older version.
  double offset_spread = 0.25;
};

/// One arm that this project measured.
struct Measured {
  std::string what, platform, source;  ///< source: a file under results/ and the arm
  scenario::Scenario scenario;         ///< its control arm is what was run
  std::optional<bool> peer;
  double median_s = 0;
  bool fitted = false;  ///< the stack's costs were read off this run
};

struct Tables {
  std::vector<Table> published;
  std::vector<Measured> measured;
};

/// Error(input) that names the file and the pointer.
[[nodiscard]] Tables load_tables(const std::filesystem::path& file);
/// tables.json in published/ of scenario::directories().
[[nodiscard]] Tables find_tables();

/// A published figure and what is projected for it by a fit that has not seen any figure of its table.
struct Row {
  std::string table, phase;
  bool control = true;
  double published_s = 0, projected_s = 0;
  double fitted_s = 0;  ///< by the fit to all tables
  [[nodiscard]] double error() const noexcept { return projected_s / published_s - 1; }
};

/// From control to treatment: treatment over control less one.
struct Change {
  std::string table, phase;
  double published = 0, projected = 0;
  [[nodiscard]] double difference() const noexcept { return projected - published; }
};

struct MeasuredRow {
  std::string what, source;
  double measured_s = 0, projected_s = 0;
  bool fitted = false;
  [[nodiscard]] double error() const noexcept { return projected_s / measured_s - 1; }
};

struct Validation {
  std::vector<Row> rows;        ///< each left out
  std::vector<Change> changes;  ///< each left out
  std::vector<MeasuredRow> measured;
  Stack stack;                                                 ///< fitted to all published tables
  std::vector<Platform> platforms;                             ///< theirs, host_cost fitted to all
  double median_error = 0, worst_error = 0, worst_change = 0;  ///< absolute, over rows and changes
  double worst_measured = 0;                                   ///< over those that were not fitted

  /// What is aimed at: 10 % and 25 % of times, 5 percentage points of changes, 10 % of own measurements.
  static constexpr double kMedianGoal = 0.10, kWorstGoal = 0.25, kChangeGoal = 0.05, kMeasuredGoal = 0.10;
};

/// Fits `stack` to all tables but one, for each one, and projects that one. `own` projects what was measured.
[[nodiscard]] Validation validate(const Tables& tables, const Stack& stack, const Stack& own);

/// refit-validation/1, one object, ending in a newline.
[[nodiscard]] std::string to_json(const Validation& validation);
[[nodiscard]] std::string to_text(const Validation& validation);

}  // namespace refit::project
