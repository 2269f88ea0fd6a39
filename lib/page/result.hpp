// What the page shows of a result: refit-bench/1, read once and checked.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json_node.hpp"

namespace refit::page {

inline constexpr std::array<const char*, 2> kArms = {"control", "treatment"};

struct Phase {
  std::string key, source;      ///< source: measured, stand-in, published, not-published
  std::vector<double> samples;  ///< seconds
  std::optional<double> median, spread, x_floor, extrapolated, published;
  std::string published_source;
  bool moved_nothing = false;  ///< host traffic of no bytes: what was timed is the timer
};

struct Stage {
  std::string key, name, role;  ///< key: its name, "generator.NAME" where the trainer has it too
  std::vector<double> samples;
  double median = 0;
  std::optional<double> device_s, x_floor;
  std::uint64_t bytes = 0, launches = 0;
};

struct Check {
  struct Finding {
    std::string tensor, index, expected, got, what;
    std::uint64_t count = 0;
  };
  std::string name;
  std::uint64_t bytes = 0, mismatches = 0;
  std::vector<Finding> findings;
};
/// None where nothing was verified.
using Verdict = std::optional<std::vector<Check>>;
[[nodiscard]] bool differs(const Verdict& verdict);

/// What a process holds from then on: seconds since the refit began, bytes.
using MemorySteps = std::vector<std::pair<double, std::uint64_t>>;

struct Arm {
  std::vector<std::pair<std::string, std::string>> switches;
  std::vector<std::string> inapplicable;
  std::uint64_t wire_bytes = 0, buckets = 0;
  std::vector<Phase> phases;                           ///< in the order of a step
  bool measured = false;                               ///< what follows is known
  std::vector<Stage> stages;                           ///< in the order in which the bytes flow
  std::optional<double> trainer_rest, generator_rest;  ///< median seconds that belong to no stage
  std::vector<double> warmup;
  std::uint64_t messages = 0, message_bytes = 0, handles_opened = 0, peak_extra_bytes = 0,
                verified_refits = 0;
  std::array<MemorySteps, 2> memory;  ///< of trainer and generator; empty where nobody counted
  std::optional<double> verify_s;
  Verdict verdict;
};

/// Of one rank, in seconds from the common start.
struct RoundTimes {
  double pack, start, arrived, placed;
};

struct RankArm {
  std::optional<double> median;
  std::vector<std::pair<std::string, double>> stages;  ///< medians, in the order in which the bytes flow
  std::vector<RoundTimes> rounds;
  std::optional<double> exchanging,
      hidden;                            ///< seconds with a round under way; those with other work meanwhile
  std::uint64_t sent = 0, received = 0;  ///< to and from others
  std::uint64_t peak_extra_bytes = 0;
  std::optional<std::uint64_t> most_extra_bytes;  ///< what the plan says
  Verdict verdict;
};

struct Rank {
  std::uint64_t number = 0;
  std::string host;
  std::array<RankArm, 2> arms;
};

struct Ranks {
  std::uint64_t count = 0;
  std::optional<std::uint64_t> simulated;
  std::string train, gen, exchange;
  bool colocated = true;
  std::array<std::optional<std::uint64_t>, 2> rounds, straggler;
  std::vector<std::string> notes;
  std::vector<Rank> rows;
};

struct Result {
  explicit Result(JsonNode node) : root(std::move(node)) {}
  std::string status, message;  ///< message: of a refusal or failure
  std::string name, title, description, digest;
  std::vector<std::string> notes;
  std::string replayed;  ///< a sentence; empty when nothing was chosen
  double fraction = 1, extrapolation = 1;
  std::optional<std::uint64_t> memory_needed, memory_budget;
  std::vector<Arm> arms;  ///< both or none
  std::optional<Ranks> ranks;
  std::optional<double> ratio;  ///< of the transfer's medians, treatment over control
  std::optional<std::pair<double, double>> ci95;
  bool on_gpu = false;
  JsonNode root;  ///< for what is shown as it stands

  [[nodiscard]] bool measured() const { return !arms.empty() && arms[0].measured && arms[1].measured; }
};

inline constexpr const char* kTransfer = "prepare_for_generation/transfer_and_update_weights";
inline constexpr const char* kPrepare = "prepare_for_generation/total";
inline constexpr const char* kOffload = "prepare_for_generation/offload_before_refit";
inline constexpr const char* kSwap = "policy_and_reference_logprobs/reference_swap";
inline constexpr const char* kStep = "total_step_time";

/// Nothing where the arm has no such phase.
[[nodiscard]] const Phase* find_phase(const Arm& arm, const std::string& key);

/// Nothing where a step of the path is absent.
[[nodiscard]] std::optional<JsonNode> find(const JsonNode& root, const std::vector<std::string>& path);
[[nodiscard]] std::string text_or(const std::optional<JsonNode>& node, const std::string& otherwise);

/// The result refers to `root`'s file. Error(input) that names file and key for what is no refit-bench/1.
[[nodiscard]] Result read_result(const JsonNode& root);
/// Of an "ok" or "mismatch" with ranks.
[[nodiscard]] Ranks read_ranks(const JsonNode& node);
/// Of "verify" or "verified".
[[nodiscard]] Verdict read_verdict(const std::optional<JsonNode>& node);
/// Of one process in "memory_timeline".
[[nodiscard]] MemorySteps read_memory_steps(const JsonNode& node);
/// Seconds, shares, multiples: finite, not negative, at most 1e12, so that no sum or scale overflows.
[[nodiscard]] double read_number(const JsonNode& node);
[[nodiscard]] std::optional<double> find_number(const JsonNode& node, const std::string& key);

/// Where a stage or phase stands in its flow; what is not known here comes last.
[[nodiscard]] std::size_t place_of_stage(const std::string& name);

}  // namespace refit::page
