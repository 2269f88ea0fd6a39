// Where numbers stand along an axis.
#pragma once

#include <cstddef>
#include <vector>

namespace refit::page {

/// By their logarithm where they span more than a decade.
class Scale {
 public:
  /// All numbers at least 0 and finite. A straight one begins at `from`.
  Scale(double least, double most, double from);
  [[nodiscard]] bool logarithmic() const noexcept { return logarithmic_; }
  /// 0 at one end, 1 at the other.
  [[nodiscard]] double share(double value) const;
  /// Numbers to write beside it: about `most`, round ones.
  [[nodiscard]] std::vector<double> marks(std::size_t most) const;

 private:
  bool logarithmic_;
  double begin_, end_;  ///< logarithms where it is logarithmic
};

}  // namespace refit::page
