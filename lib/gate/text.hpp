// Cells and clauses that every rendering shares.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "refit/gate/gate.hpp"

namespace refit::gate {

/// "322.4 ms", four digits; "0".
[[nodiscard]] std::string duration(double seconds);
/// "+3.1 %", of a ratio.
[[nodiscard]] std::string change(double ratio);
/// "5 %", without a sign and without needless digits.
[[nodiscard]] std::string share(double value);
/// "ARM: PHASE".
[[nodiscard]] std::string title(const std::string& arm, const std::string& phase);

/// One line of what was decided: a phase or a limit.
struct Row {
  Verdict verdict = Verdict::pass;
  std::string name;
  std::string before{}, after{};  ///< the limit, what was measured
  std::string change{};           ///< empty against limits
  std::string interval{};         ///< empty when there is none
  std::string allowed{}, reason{};
  bool limit = false;
};
/// Phases, then limits.
[[nodiscard]] std::vector<Row> rows(const Report& report);

/// "3 files: a.json, b.json, c.json".
[[nodiscard]] std::string files(const std::vector<std::string>& names);

/// What does not belong to a phase: differences, faults, notes; each printable.
struct Remark {
  enum class Kind { difference, fault, note } kind = Kind::note;
  std::string text;
};
[[nodiscard]] std::vector<Remark> remarks(const Report& report);
/// "MISMATCH", "INVALID", "note".
[[nodiscard]] std::string_view label(Remark::Kind kind) noexcept;

/// One sentence of the whole: "REGRESSION: 1 of 6 slower than allowed".
[[nodiscard]] std::string summary(const Report& report);

}  // namespace refit::gate
