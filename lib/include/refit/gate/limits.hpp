// Limits that stand for themselves: a file of numbers, and no expressions (schema refit-gate-limits/1).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace refit::gate {

/// Names a phase of an arm; the arm is empty for files without arms.
struct PhaseLimit {
  std::string arm, phase;
  double most = 0;
};
/// An arm's time over that of another, in the same file.
struct RatioLimit {
  std::string phase, arm, over;
  double most = 0;
};
struct BytesLimit {
  std::string arm;
  std::uint64_t most = 0;
};
/// Of `refit-verify mutants --json`.
struct MutantsLimit {
  bool all_killed = false;
  std::uint64_t least_killed = 0;
};

struct Limits {
  std::string file;
  std::vector<PhaseLimit> x_floor{}, seconds{};
  std::vector<RatioLimit> ratio{};
  std::vector<BytesLimit> peak_extra_bytes{}, wire_bytes{};
  std::optional<MutantsLimit> mutants{};
};
/// Error(input) that begins with file and JSON pointer: an unknown key (with the nearest known one), a wrong
/// type, a limit that is missing or not above 0, no limit at all.
[[nodiscard]] Limits read_limits(const std::string& file);

/// What `refit-verify mutants --json` counted.
struct Mutants {
  std::string file;
  std::uint64_t killed = 0, planted = 0;
};
[[nodiscard]] Mutants read_mutants(const std::string& file);

}  // namespace refit::gate
