#include "project/least_squares.hpp"

#include <cmath>
#include <cstddef>

namespace refit::project {
namespace {

using Matrix = std::vector<std::vector<double>>;

constexpr int kMostSteps = 60;
constexpr double kDifference = 1e-4, kEnough = 1e-9;

double sum_of_squares(const std::vector<double>& r) {
  double sum = 0;
  for (const double each : r) sum += each * each;
  return sum;
}

/// Solves a x = b for a symmetric positive definite `a` (Cholesky), in place of b. False where it is not.
bool solve(Matrix a, std::vector<double>& b) {
  const std::size_t n = b.size();
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t k = 0; k < j; ++k) a[j][j] -= a[j][k] * a[j][k];
    if (!(a[j][j] > 0)) return false;
    a[j][j] = std::sqrt(a[j][j]);
    for (std::size_t i = j + 1; i < n; ++i) {
      for (std::size_t k = 0; k < j; ++k) a[i][j] -= a[i][k] * a[j][k];
      a[i][j] /= a[j][j];
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= a[k][i] * b[k];
    b[i] /= a[i][i];
  }
  return true;
}

}  // namespace

std::vector<double> least_squares(const Residuals& residuals, std::vector<double> x) {
  const std::size_t n = x.size();
  std::vector<double> r = residuals(x);
  double sum = sum_of_squares(r), damping = 1e-3;
  for (int step = 0; step < kMostSteps; ++step) {
    Matrix normal(n, std::vector<double>(n, 0)), columns(n);
    for (std::size_t j = 0; j < n; ++j) {
      std::vector<double> moved = x;
      moved[j] += kDifference;
      columns[j] = residuals(moved);
      for (std::size_t i = 0; i < r.size(); ++i) columns[j][i] = (columns[j][i] - r[i]) / kDifference;
    }
    std::vector<double> gradient(n, 0);
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t i = 0; i < r.size(); ++i) gradient[j] -= columns[j][i] * r[i];
      for (std::size_t k = 0; k <= j; ++k) {
        for (std::size_t i = 0; i < r.size(); ++i) normal[j][k] += columns[j][i] * columns[k][i];
        normal[k][j] = normal[j][k];
      }
    }
    bool better = false;
    double gained = 0;
    for (; damping < 1e9 && !better; damping *= better ? 0.1 : 10) {
      Matrix damped = normal;
      for (std::size_t j = 0; j < n; ++j) damped[j][j] += damping * (normal[j][j] + 1e-12);
      std::vector<double> move = gradient;
      if (!solve(damped, move)) continue;
      std::vector<double> next = x;
      for (std::size_t j = 0; j < n; ++j) next[j] += move[j];
      std::vector<double> there = residuals(next);
      const double sum_there = sum_of_squares(there);
      if (!(sum_there < sum)) continue;
      better = true;
      gained = sum - sum_there;
      x = std::move(next);
      r = std::move(there);
      sum = sum_there;
    }
    if (!better || gained < kEnough * sum) break;
  }
  return x;
}

}  // namespace refit::project
