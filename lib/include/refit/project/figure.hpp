// A number that a projection rests on, and where it comes from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace refit::project {

/// In the order of how far a figure is to be believed.
enum class Basis : std::uint8_t {
  measured,   ///< by this project's bench, in a result that is named
  datasheet,  ///< nominal, of a vendor
  published,  ///< by somebody who ran it
  fitted,     ///< to published tables, by validate()
  assumed,    ///< nobody said; the source says why this value
};
[[nodiscard]] std::string_view name_of(Basis basis) noexcept;

struct Figure {
  double value = 0;
  Basis basis = Basis::assumed;
  std::string source;  ///< result, data sheet, page or reason
};

/// A figure, and how far a fit may move it.
struct Fitted {
  Figure figure;
  std::optional<double> prior;  ///< where a fit begins; nothing: it is left alone
  double spread = 0;            ///< standard deviation of its logarithm around the prior
};

}  // namespace refit::project
