// Straight from a given number, or logarithmic from the least.
#include "page/scale.hpp"

#include <algorithm>
#include <cmath>

#include "page/units.hpp"

namespace refit::page {

Scale::Scale(double least, double most, double from)
    : logarithmic_(least > 0 && most / least > 10),
      begin_(logarithmic_ ? std::log10(least) : from),
      end_(logarithmic_ ? std::log10(most) : most) {}

double Scale::share(double value) const {
  if (!(end_ > begin_) || (logarithmic_ && !(value > 0))) return 0;
  return std::clamp(((logarithmic_ ? std::log10(value) : value) - begin_) / (end_ - begin_), 0.0, 1.0);
}

std::vector<double> Scale::marks(std::size_t most) const {
  if (!logarithmic_) return ticks(end_, most);
  const double decades = end_ - begin_;
  const auto first = static_cast<int>(std::floor(begin_)), last = static_cast<int>(std::ceil(end_));
  const int step = std::max(1, static_cast<int>(std::ceil(decades / static_cast<double>(most))));
  std::vector<double> marks;
  for (int power = first; power <= last; power += step) {
    for (const double multiple : {1.0, 2.0, 5.0}) {
      if (multiple > 1 && 2 * decades > static_cast<double>(most)) continue;
      const double mark = multiple * std::pow(10.0, power), at = std::log10(mark);
      if (at >= begin_ - 1e-9 && at <= end_ + 1e-9) marks.push_back(mark);
    }
  }
  return marks;
}

}  // namespace refit::page
