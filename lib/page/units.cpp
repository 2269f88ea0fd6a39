// Rounding.
#include "page/units.hpp"

#include <fmt/format.h>

#include <cmath>

#include "refit/base/bytes.hpp"

namespace refit::page {

Unit unit_for(double largest_seconds) {
  if (largest_seconds >= 100) return {"s", 1, 2};
  if (largest_seconds >= 1) return {"s", 1, 4};
  return largest_seconds >= 1e-3 || largest_seconds == 0 ? Unit{"ms", 1e3, 3} : Unit{"\u00b5s", 1e6, 2};
}

std::string number_in(const Unit& unit, const std::optional<double>& seconds) {
  if (!seconds) return kNone;
  const double value = *seconds * unit.factor, least = std::pow(10.0, -unit.decimals);
  if (value > 0 && value < least / 2) return fmt::format("&lt;{:.{}f}", least, unit.decimals);
  return fmt::format("{:.{}f}", value, unit.decimals);
}

std::string duration(double seconds) {
  if (seconds == 0) return "0 s";
  const Unit unit = seconds >= 1      ? Unit{"s", 1, 0}
                    : seconds >= 1e-3 ? Unit{"ms", 1e3, 0}
                    : seconds >= 1e-6 ? Unit{"\u00b5s", 1e6, 0}
                                      : Unit{"ns", 1e9, 0};
  const double value = seconds * unit.factor;
  const int decimals = value >= 999.95 ? 0 : value >= 99.995 ? 1 : value >= 9.9995 ? 2 : 3;
  return fmt::format("{:.{}f}\u00a0{}", value, decimals, unit.name);
}

std::string percent(const std::optional<double>& share, int decimals) {
  if (!share) return kNone;
  return *share >= 100 ? fmt::format("{:.0e}", 100 * *share) : fmt::format("{:.{}f}", 100 * *share, decimals);
}

std::string change(const std::optional<double>& from, const std::optional<double>& to) {
  if (!from || !to || *from <= 0) return kNone;
  const double change = 100 * (*to / *from - 1);
  if (change >= 1e6) return fmt::format("{:+.0e}\u00a0%", change);
  return fmt::format("{}{:.1f}\u00a0%", change < 0 ? "\u2212" : "+", std::abs(change));
}

std::string times(const std::optional<double>& multiple) {
  if (!multiple) return kNone;
  return *multiple >= 1e6 ? fmt::format("{:.1e}", *multiple) : fmt::format("{:.2f}", *multiple);
}

std::string grouped(std::uint64_t count) {
  std::string digits = fmt::format("{}", count);
  for (std::size_t end = digits.size(); end > 3; end -= 3) digits.insert(end - 3, "\u202f");
  return digits;
}

std::string bytes_or_none(std::uint64_t bytes) {
  return bytes == 0 ? kNone : format_bytes(bytes);
}

std::string quoted(const std::optional<double>& seconds) {
  return seconds ? fmt::format("{}", *seconds) : kNone;
}

std::vector<double> ticks(double largest, std::size_t most) {
  if (!(largest > 0)) return {0};
  const double rough = largest / static_cast<double>(most);
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double multiple : {1.0, 2.0, 5.0}) {
    if (multiple * power >= rough * (1 - 1e-9)) {
      step = multiple * power;
      break;
    }
  }
  std::vector<double> marks;
  for (std::size_t i = 0; i <= most && static_cast<double>(i) * step <= largest * (1 + 1e-9); ++i) {
    marks.push_back(static_cast<double>(i) * step);
  }
  return marks;
}

}  // namespace refit::page
