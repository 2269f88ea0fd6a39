// Stacked bars on one scale, their axis and what their colours mean.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "page/looks.hpp"
#include "page/units.hpp"

namespace refit::page {

struct Piece {
  std::string name;
  double seconds;
};

struct Bar {
  std::string left;   ///< HTML beside it
  std::string label;  ///< HTML that says what it is to who cannot see it
  std::vector<Piece> pieces;
  double begin = 0;  ///< seconds left empty before it
  int height = 40;
};

/// Seconds at which the longest ends.
[[nodiscard]] double end_of(const std::vector<Bar>& bars);
/// From 0 to `end` seconds.
[[nodiscard]] std::string stacked_bar(const Bar& bar, double end, const Looks& looks);
[[nodiscard]] std::string time_axis(double end);
/// The same as a picture alone, with about `most` marks.
[[nodiscard]] std::string time_marks(double end, std::size_t most);
/// Of the pieces that are long enough to be seen.
[[nodiscard]] std::string legend(const std::vector<Bar>& bars, double end, const Looks& looks);

/// Which class hides a text that takes `pixels` in a place of this share of a picture where the page is too
/// narrow; nothing when it never fits.
struct Fit {
  bool ever;
  const char* kind;
};
[[nodiscard]] Fit fit(double pixels, double share);

}  // namespace refit::page
