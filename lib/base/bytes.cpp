// Parsing and printing byte counts.
#include "refit/base/bytes.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <string>

#include "refit/base/error.hpp"

namespace refit {
namespace {

constexpr std::uint64_t max_bytes = std::uint64_t{1} << 62;

struct Unit {
  std::string_view suffix;  // upper case
  std::uint64_t bytes;
};

constexpr std::array units{
    Unit{"", 1},
    Unit{"B", 1},
    Unit{"K", 1ull << 10},
    Unit{"M", 1ull << 20},
    Unit{"G", 1ull << 30},
    Unit{"T", 1ull << 40},
    Unit{"KIB", 1ull << 10},
    Unit{"MIB", 1ull << 20},
    Unit{"GIB", 1ull << 30},
    Unit{"TIB", 1ull << 40},
    Unit{"KB", 1'000},
    Unit{"MB", 1'000'000},
    Unit{"GB", 1'000'000'000},
    Unit{"TB", 1'000'000'000'000},
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string_view take_digits(std::string_view& rest) {
  std::size_t n = 0;
  while (n < rest.size() && is_digit(rest[n])) ++n;
  const std::string_view digits = rest.substr(0, n);
  rest.remove_prefix(n);
  return digits;
}

/// The unit with that suffix in any case, or 0.
std::uint64_t unit_of(std::string_view suffix) {
  std::string upper(suffix);
  for (char& c : upper) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  for (const Unit& unit : units) {
    if (upper == unit.suffix) return unit.bytes;
  }
  return 0;
}

}  // namespace

std::uint64_t parse_bytes(std::string_view text, std::string_view what) {
  std::string_view rest = text;
  const std::string_view whole_digits = take_digits(rest);
  std::string_view fraction_digits;
  bool well_formed = !whole_digits.empty();
  if (well_formed && rest.starts_with('.')) {
    rest.remove_prefix(1);
    fraction_digits = take_digits(rest);
    well_formed = !fraction_digits.empty();
  }
  if (rest.size() > 1 && rest.starts_with(' ')) rest.remove_prefix(1);
  const std::uint64_t unit = unit_of(rest);
  if (!well_formed || unit == 0) {
    fail_input(fmt::format("{}: \"{}\" is not a byte count; write for example 64MiB, 1.5GiB, 4GB or 4096",
                           what, text));
  }

  const auto fail_too_large = [&] {
    fail_input(fmt::format("{}: \"{}\" is more than 2^62 bytes", what, text));
  };
  std::uint64_t whole = 0;
  const char* whole_end = whole_digits.data() + whole_digits.size();
  if (std::from_chars(whole_digits.data(), whole_end, whole).ec != std::errc{} || whole > max_bytes / unit) {
    fail_too_large();
  }
  // The whole part stays in integers, so that large counts are exact; a double resolves a fraction of 1 TiB.
  double fraction = 0;
  for (std::size_t i = fraction_digits.size(); i-- > 0;) {
    fraction = (fraction + (fraction_digits[i] - '0')) / 10;
  }
  const std::uint64_t bytes =
      whole * unit + static_cast<std::uint64_t>(std::llround(fraction * static_cast<double>(unit)));
  if (bytes > max_bytes) fail_too_large();
  if (bytes == 0) fail_input(fmt::format("{}: \"{}\" is zero bytes", what, text));
  return bytes;
}

std::string format_bytes(std::uint64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  constexpr std::array names{"KB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes) / 1000;
  std::size_t unit = 0;
  // 999.995 would print as 1000.00.
  while (value >= 999.995 && unit + 1 < names.size()) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.2f} {}", value, names[unit]);
}

}  // namespace refit
