// Many benches in turn, each with other settings: one JSON document (schema refit-sweep/1), one line a point.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "refit/report/report.hpp"
#include "refit/scenario/sweep.hpp"

namespace refit::report {

/// Keeps of each point its JSON alone: a report holds a whole model's inventory.
class SweepReport {
 public:
  explicit SweepReport(std::vector<scenario::SweepPoint> points);

  /// The line above the points.
  [[nodiscard]] std::string head() const;
  /// Adds the next point's result, whatever became of it, and returns its line.
  std::string add(const Report& report);
  [[nodiscard]] std::string to_json() const;

 private:
  [[nodiscard]] std::string settings(const std::vector<std::string>& cells) const;
  std::vector<scenario::SweepPoint> points_;
  std::vector<std::size_t> widths_;  ///< of the settings' columns
  std::vector<std::string> results_;
};

}  // namespace refit::report
