// What is turned on and off: the switches that two arms set differently, alone or in groups.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace refit::ablation {

/// A switch as the two arms have it.
struct Setting {
  std::string name, control, treatment;
  std::string unused_because{};  ///< why neither arm looks at it; empty: one does
  [[nodiscard]] bool differs() const noexcept { return control != treatment; }
};

/// Switches that move together; `name` joins theirs with '+'.
struct Factor {
  std::string name;
  std::vector<Setting> settings;
};

/// Which factors are as in the treatment: bit i is factor i. None: the control.
using Subset = std::uint32_t;
inline constexpr std::size_t kMostFactors = 31;
[[nodiscard]] constexpr Subset all_of(std::size_t factors) noexcept {
  return (Subset{1} << factors) - 1;
}

/// `text` empty: each switch that differs and is looked at, alone. "prequantize,loader+shuffle": these, in
/// this order, those joined by '+' together; everything else stays as in the control, in every combination.
/// Error(input): arms that do not differ, an unknown switch (with the nearest), one that does not differ or
/// that nobody looks at, one that is named twice, an empty name.
[[nodiscard]] std::vector<Factor> choose_factors(const std::vector<Setting>& settings, std::string_view text);

/// "prequantize, loader+shuffle"; "all", and where that is shorter "all but loader"; "none".
[[nodiscard]] std::string label(const std::vector<Factor>& factors, Subset subset);

/// Names of the factors that are on.
[[nodiscard]] std::vector<std::string> names_of(const std::vector<Factor>& factors, Subset subset);

}  // namespace refit::ablation
