// What a result file says, whoever wrote it: one value for refit-bench, Google Benchmark, nccl-tests and
// NeMo-RL.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace refit::gate {

enum class Source : std::uint8_t {
  refit_bench,       ///< refit-bench --json, one rank or many
  google_benchmark,  ///< --benchmark_format=json, with repetitions
  nccl_tests,        ///< -J, with -I for the times of single iterations
  nemo_rl,           ///< metrics by step: {"timing/train/...": {"1": 9.67, ..}, ..}
};
[[nodiscard]] std::string_view name_of(Source source) noexcept;

/// Seconds of one phase, by NeMo-RL's name where there is one.
struct Phase {
  std::string arm;  ///< "control", "treatment"; empty where a file has no arms
  std::string name;
  std::vector<double> seconds;      ///< in the order in which they were taken
  std::optional<double> floor_s{};  ///< what a copy of the bytes that are needed takes on that machine
};

/// What an arm took beside time.
struct Arm {
  std::string name;
  std::uint64_t wire_bytes = 0, peak_extra_bytes = 0;
};

/// Time that no stage accounts for, as a share of all.
struct Unattributed {
  std::string where;  ///< "treatment, trainer", "control, rank 3"
  double share = 0;
};

/// One file: what one cold start measured.
struct Run {
  std::string file;
  Source source = Source::refit_bench;
  std::string title{};           ///< of what was measured: the scenario's name; empty when not known
  std::string date{}, commit{};  ///< empty when not known
  /// What has to agree before times may be compared: field, value. Nothing in foreign files.
  std::vector<std::pair<std::string, std::string>> fingerprint{};
  std::vector<std::string> faults{};  ///< why it must not be compared: it failed, or a verification did
  std::vector<std::string> notes{};   ///< what was left out, and what nobody checked
  std::vector<Phase> phases{};
  std::vector<Arm> arms{};
  std::vector<Unattributed> unattributed{};
};

/// Which samples count. Of NeMo-RL's metrics it means steps, of everything else the samples of a phase, from
/// 1 on, after those that the file's author left out already.
struct Selection {
  std::optional<std::uint64_t> first, last;  ///< first: else 3 for NeMo-RL and 1 for the others
  /// Leave out samples from the beginning for as long as each lies above the upper fence of the second half
  /// (Tukey: the third quartile and one and a half interquartile ranges), at most half of them.
  bool by_rule = false;
};

/// Reads a file of any of these formats, up to 64 MiB. Error(input) that names file and key: not JSON, of no
/// known format or of a version that is not known, a number that is none, no samples, or more than 100,000.
[[nodiscard]] Run read_run(const std::string& file, const Selection& selection);

/// Seconds below which a difference is none unless something else is asked for: 0.1 ms for phases of a step,
/// which a host's scheduler does not leave alone, and 0 for the calls that benchmarks time.
[[nodiscard]] double usual_min_effect(Source source) noexcept;

/// The fields that a fingerprint may have.
[[nodiscard]] const std::vector<std::string_view>& fingerprint_fields();

}  // namespace refit::gate
