// A candidate against a baseline, against limits, or both: everything that a gate says, as one value.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "refit/gate/decision.hpp"
#include "refit/gate/limits.hpp"
#include "refit/gate/measurement.hpp"

namespace refit::gate {

struct Settings {
  double max_regression = 0.05;            ///< the share by which a phase may be slower
  std::map<std::string, double> of_phase;  ///< for single phases, by name, with or without "ARM: "
  std::optional<double> min_effect_s;      ///< else 0.1 ms for phases of a step, and nothing for the others
  std::vector<std::string> only;           ///< phases that are looked at; empty: all
  std::string arm;                         ///< the arm that is looked at; empty: all
  std::vector<std::string> allow;          ///< fields of the fingerprint that may differ
  double max_unattributed = 0.02;
  std::uint64_t seed = 1;
};

struct PhaseResult {
  std::string arm, phase;
  Decision decision{};
  double allowed = 0;    ///< the share by which it may be slower, with min_effect
  std::string reason{};  ///< for people; empty when there is nothing to add
};

struct LimitResult {
  std::string what;  ///< "x_floor", "ratio", "seconds", "peak_extra_bytes", "wire_bytes", "mutants"
  std::string arm, phase;
  Decision decision;
  double limit = 0;
  std::string reason;
};

/// A field of the fingerprint in which files differ.
struct Difference {
  std::string field, baseline, candidate;
  bool allowed = false;
};

struct Report {
  Verdict verdict = Verdict::pass;
  std::vector<std::string> baseline, candidate;  ///< files
  std::string limits;                            ///< file, or empty
  std::vector<PhaseResult> phases;
  std::vector<LimitResult> checked;
  std::vector<Difference> differences;
  std::vector<std::string> faults;  ///< why it is INVALID
  std::vector<std::string> notes;
  Settings settings;
};

/// `baseline` may be empty when there are limits. Error(input) when a limit or a setting names what no file
/// has.
[[nodiscard]] Report judge(const std::vector<Run>& baseline, const std::vector<Run>& candidate,
                           const Settings& settings, const std::optional<Limits>& limits = {},
                           const std::optional<Mutants>& mutants = {});

/// 0 pass or improved, 1 regression, 2 invalid, 3 ambiguous, 4 mismatch.
[[nodiscard]] int exit_code(Verdict verdict) noexcept;
/// The exit code for a failure while running.
inline constexpr int kRuntimeExit = 5;

/// "5%" or "0.05" to a share, from 0 to 10. Error(input) naming `what`.
[[nodiscard]] double parse_share(std::string_view text, std::string_view what);
/// "0.1ms", "20us", "3ns", "1.5s" to seconds. Error(input) naming `what`.
[[nodiscard]] double parse_seconds(std::string_view text, std::string_view what);
/// "5": samples after the first five; "auto": by rule. Error(input) naming --warmup.
void parse_warmup(std::string_view text, Selection& selection);
/// "3-20": these samples. Error(input) naming --steps.
void parse_steps(std::string_view text, Selection& selection);
/// Error(input) for a field that no fingerprint has, with the nearest one.
void require_fields(const std::vector<std::string>& fields);

}  // namespace refit::gate
