// Nonlinear least squares, small and dense: Levenberg and Marquardt's method with differences for
// derivatives.
#pragma once

#include <functional>
#include <vector>

namespace refit::project {

using Residuals = std::function<std::vector<double>(const std::vector<double>& x)>;

/// A local minimum of the sum of squares near `x`. The number of residuals does not change with x.
[[nodiscard]] std::vector<double> least_squares(const Residuals& residuals, std::vector<double> x);

}  // namespace refit::project
