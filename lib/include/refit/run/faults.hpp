// Faults that can be planted in a refit, to prove that verification finds them.
#pragma once

#include <span>
#include <string_view>

#include "refit/verify/verify.hpp"

namespace refit::run {

/// One kind of fault: what it does, and the switches of the arm in which it is planted.
struct Fault {
  std::string_view name;      ///< "flip-bit-in-transit"
  std::string_view what;      ///< one clause for people
  std::string_view switches;  ///< set on top of published_treatment()
  verify::Check caught_by;    ///< the check that has to find it
};
[[nodiscard]] std::span<const Fault> all_faults();

}  // namespace refit::run
