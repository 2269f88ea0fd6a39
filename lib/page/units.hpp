// Numbers for people: one unit a table, decimals that line up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace refit::page {

/// A dash for no value.
inline constexpr const char* kNone = "\u2013";

struct Unit {
  const char* name;
  double factor;  ///< from seconds
  int decimals;
};
/// In which the largest of a table or figure has three digits at most, or seconds.
[[nodiscard]] Unit unit_for(double largest_seconds);
/// With the unit's decimals; "<0.001" for what is not nothing and rounds to it.
[[nodiscard]] std::string number_in(const Unit& unit, const std::optional<double>& seconds);
/// Four significant digits in a unit of its own: "518.8 ms".
[[nodiscard]] std::string duration(double seconds);

/// "7.2": percent of a share, the sign in the table's head.
[[nodiscard]] std::string percent(const std::optional<double>& share, int decimals = 1);
/// Signed, with the sign of percent: "+4.0 %".
[[nodiscard]] std::string change(const std::optional<double>& from, const std::optional<double>& to);
/// Two decimals, or powers of ten beyond a million.
[[nodiscard]] std::string times(const std::optional<double>& multiple);
/// "18 867".
[[nodiscard]] std::string grouped(std::uint64_t count);
/// A dash for none.
[[nodiscard]] std::string bytes_or_none(std::uint64_t bytes);
/// As it was published: no digit is added.
[[nodiscard]] std::string quoted(const std::optional<double>& seconds);

/// Where an axis from 0 to `largest` has its marks: 1, 2 or 5 times a power of ten apart, at most `most`.
[[nodiscard]] std::vector<double> ticks(double largest, std::size_t most);

}  // namespace refit::page
