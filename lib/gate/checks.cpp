// One function a kind of limit.
#include "gate/checks.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "refit/base/digest.hpp"
#include "refit/base/error.hpp"
#include "refit/time/statistics.hpp"

namespace refit::gate {
namespace {

/// A picosecond: nothing that is moved takes less. 30 years.
constexpr double kLeastFloor = 1e-12, kMostFloor = 1e9;

class Checker {
 public:
  Checker(const Limits& limits, const std::vector<Run>& runs, std::uint64_t seed)
      : limits_(limits), runs_(runs), seed_(seed) {}

  std::vector<LimitResult> check(const std::optional<Mutants>& mutants) {
    for (const PhaseLimit& limit : limits_.x_floor) check_x_floor(limit);
    for (const PhaseLimit& limit : limits_.seconds) {
      add("seconds", limit.arm, limit.phase, limit.most,
          decide_limit(starts(limit.arm, limit.phase, "seconds"), limit.most,
                       seed_of("seconds", limit.phase)));
    }
    for (const RatioLimit& limit : limits_.ratio) check_ratio(limit);
    for (const BytesLimit& limit : limits_.peak_extra_bytes)
      check_bytes("peak_extra_bytes", limit, &Arm::peak_extra_bytes);
    for (const BytesLimit& limit : limits_.wire_bytes) check_bytes("wire_bytes", limit, &Arm::wire_bytes);
    if (limits_.mutants) check_mutants(*limits_.mutants, mutants);
    return std::move(results_);
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& file, const std::string& reason) const {
    fail_input(fmt::format("{}: {}: {} {}", limits_.file, what, file, reason));
  }

  [[nodiscard]] std::uint64_t seed_of(std::string_view what, const std::string& phase) const {
    return mix64(seed_) + digest_text(what) + digest_text(phase);
  }

  [[nodiscard]] const Phase& phase(const Run& run, const std::string& arm, const std::string& name,
                                   const std::string& what) const {
    for (const Phase& phase : run.phases) {
      if (phase.arm == arm && phase.name == name) return phase;
    }
    fail(what, run.file, fmt::format("has no phase {} of {}", name, arm.empty() ? "no arm" : "arm " + arm));
  }

  [[nodiscard]] Starts starts(const std::string& arm, const std::string& name,
                              const std::string& what) const {
    Starts starts;
    for (const Run& run : runs_) starts.push_back(phase(run, arm, name, what).seconds);
    return starts;
  }

  void add(const std::string& what, const std::string& arm, const std::string& phase, double limit,
           const Decision& decision) {
    results_.push_back({what, arm, phase, decision, limit, reason_of(decision)});
  }

  void check_x_floor(const PhaseLimit& limit) {
    Starts multiples = starts(limit.arm, limit.phase, "x_floor");
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const Phase& of = phase(runs_[i], limit.arm, limit.phase, "x_floor");
      if (!of.floor_s || !(*of.floor_s >= kLeastFloor && *of.floor_s <= kMostFloor))
        fail("x_floor", runs_[i].file, "has no floor of " + limit.phase);
      for (double& sample : multiples[i]) sample /= *of.floor_s;
    }
    add("x_floor", limit.arm, limit.phase, limit.most,
        decide_limit(multiples, limit.most, seed_of("x_floor", limit.phase)));
  }

  void check_ratio(const RatioLimit& limit) {
    const Starts over = starts(limit.over, limit.phase, "ratio"),
                 of = starts(limit.arm, limit.phase, "ratio");
    for (std::size_t i = 0; i < over.size(); ++i) {
      if (summarize(over[i]).median <= 0) {
        fail("ratio", runs_[i].file, fmt::format("took no time for {} of {}", limit.phase, limit.over));
      }
    }
    add("ratio", limit.arm + "/" + limit.over, limit.phase, limit.most,
        decide_ratio(over, of, limit.most, seed_of("ratio", limit.phase)));
  }

  /// The most of all files: bytes do not vary by chance.
  void check_bytes(const char* what, const BytesLimit& limit, std::uint64_t Arm::*member) {
    std::uint64_t most = 0;
    for (const Run& run : runs_) {
      const auto arm =
          std::find_if(run.arms.begin(), run.arms.end(), [&](const Arm& a) { return a.name == limit.arm; });
      if (arm == run.arms.end()) fail(what, run.file, fmt::format("has no arm {}", limit.arm));
      most = std::max(most, (*arm).*member);
    }
    Decision decision;
    decision.verdict = most > limit.most ? Verdict::regression : Verdict::pass;
    decision.value = static_cast<double>(most);
    add(what, limit.arm, "", static_cast<double>(limit.most), decision);
  }

  void check_mutants(const MutantsLimit& limit, const std::optional<Mutants>& mutants) {
    if (!mutants) {
      fail_input(fmt::format("{}: mutants: give what refit-verify mutants --json wrote with --mutants",
                             limits_.file));
    }
    Decision decision;
    const bool enough = mutants->killed >= limit.least_killed && mutants->planted > 0 &&
                        (!limit.all_killed || mutants->killed == mutants->planted);
    decision.verdict = enough ? Verdict::pass : Verdict::regression;
    decision.value = static_cast<double>(mutants->killed);
    const std::uint64_t least = std::max(limit.least_killed, limit.all_killed ? mutants->planted : 0);
    results_.push_back({"mutants", "", "", decision, static_cast<double>(least),
                        fmt::format("{} of {} killed", mutants->killed, mutants->planted)});
  }

  const Limits& limits_;
  const std::vector<Run>& runs_;
  std::uint64_t seed_;
  std::vector<LimitResult> results_;
};

}  // namespace

std::vector<LimitResult> check_limits(const Limits& limits, const std::vector<Run>& candidate,
                                      const std::optional<Mutants>& mutants, std::uint64_t seed) {
  return Checker(limits, candidate, seed).check(mutants);
}

}  // namespace refit::gate
