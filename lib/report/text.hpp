// Cells and lines of the table.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace refit::report {

/// Breaks at spaces, to at most 100 columns; every line after the first begins with `indent` spaces. A longer
/// word stays whole.
[[nodiscard]] std::string wrapped(std::string_view text, std::size_t indent = 0);

// "-" stands for no value.

/// Four significant digits, never in powers of ten.
[[nodiscard]] std::string seconds(const std::optional<double>& value);
/// As it was published: no digits are added.
[[nodiscard]] std::string quoted(const std::optional<double>& value);
[[nodiscard]] std::string percent(const std::optional<double>& value, bool sign);
/// A multiple, in at most 5 characters.
[[nodiscard]] std::string times(const std::optional<double>& value);
/// "a / b", or "-" when there is neither.
[[nodiscard]] std::string pair(const std::string& a, const std::string& b);
[[nodiscard]] std::string arrow(const std::string& a, const std::string& b);

}  // namespace refit::report
