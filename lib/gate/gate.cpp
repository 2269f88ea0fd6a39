// Whether files may be compared, which phases they share, and the worst of all verdicts.
#include "refit/gate/gate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "gate/checks.hpp"
#include "gate/lists.hpp"
#include "refit/base/digest.hpp"
#include "refit/base/error.hpp"

namespace refit::gate {
namespace {

/// What a phase is called among those of all arms.
std::string full_name(const std::string& arm, const std::string& phase) {
  return arm.empty() ? phase : arm + ": " + phase;
}

bool is_asked_for(const Phase& phase, const Settings& settings) {
  const auto& only = settings.only;
  const auto named = [&](const std::string& name) {
    return std::find(only.begin(), only.end(), name) != only.end();
  };
  return (settings.arm.empty() || phase.arm.empty() || phase.arm == settings.arm) &&
         (only.empty() || named(phase.name) || named(full_name(phase.arm, phase.name)));
}

class Judge {
 public:
  Judge(const std::vector<Run>& baseline, const std::vector<Run>& candidate, const Settings& settings)
      : baseline_(baseline), candidate_(candidate) {
    report_.settings = settings;
    for (const Run& run : baseline) report_.baseline.push_back(run.file);
    for (const Run& run : candidate) report_.candidate.push_back(run.file);
  }

  Report judge(const std::optional<Limits>& limits, const std::optional<Mutants>& mutants) {
    require_known_names();
    compare_fingerprints();
    find_faults();
    add_notes();
    const bool same = std::all_of(report_.differences.begin(), report_.differences.end(),
                                  [](const Difference& d) { return d.allowed; });
    // A run that failed says too little of itself to be of something else.
    if (!same || !report_.faults.empty()) {
      report_.verdict = report_.faults.empty() ? Verdict::mismatch : Verdict::invalid;
      return std::move(report_);
    }
    compare_phases();
    if (limits && report_.faults.empty()) {
      report_.limits = limits->file;
      report_.checked = check_limits(*limits, candidate_, mutants, report_.settings.seed);
    }
    report_.verdict = worst();
    return std::move(report_);
  }

 private:
  template <typename Visit>
  void for_each_run(Visit visit) const {
    for (const Run& run : baseline_) visit(run);
    for (const Run& run : candidate_) visit(run);
  }

  /// A name that nobody has would be a threshold that nobody applies.
  void require_known_names() const {
    std::vector<std::string> arms, names;
    bool with_arms = false, without = false;
    for_each_run([&](const Run& run) {
      for (const Phase& phase : run.phases) {
        names.push_back(phase.name);
        names.push_back(full_name(phase.arm, phase.name));
        arms.push_back(phase.arm);
        (phase.arm.empty() ? without : with_arms) = true;
      }
    });
    const Settings& settings = report_.settings;
    const auto require = [](const std::vector<std::string>& known, const std::string& name,
                            const char* option) {
      if (known.empty() || std::find(known.begin(), known.end(), name) != known.end()) return;
      fail_input(fmt::format("{} {}: no file has it; there are {}", option, name, listed(distinct(known))));
    };
    for (const std::string& name : settings.only) require(names, name, "--only");
    for (const auto& [name, share] : settings.of_phase) require(names, name, "--phase");
    if (!settings.arm.empty() && with_arms) require(arms, settings.arm, "--arm");
    if (settings.arm.empty() && with_arms && without) {
      fail_input("some of these files have arms and others none: say with --arm which one is compared");
    }
  }

  static std::vector<std::string> distinct(std::vector<std::string> names) {
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
  }

  /// All files against the first that has a fingerprint.
  void compare_fingerprints() {
    const Run* first = nullptr;
    for_each_run([&](const Run& run) {
      if (run.fingerprint.empty()) return;
      if (first == nullptr) {
        first = &run;
        return;
      }
      for (std::size_t i = 0; i < run.fingerprint.size(); ++i) {
        const auto& [field, value] = run.fingerprint[i];
        const std::string& expected = first->fingerprint[i].second;
        const auto known = std::find_if(report_.differences.begin(), report_.differences.end(),
                                        [&, name = field](const Difference& d) { return d.field == name; });
        if (value == expected || known != report_.differences.end()) continue;
        const auto& allow = report_.settings.allow;
        const bool ignored =
            is_of_other_arm(field) || std::find(allow.begin(), allow.end(), field) != allow.end();
        report_.differences.push_back(
            {field, own_lines(expected, value), own_lines(value, expected), ignored});
      }
    });
  }

  /// What the arm does that nobody looks at.
  [[nodiscard]] bool is_of_other_arm(const std::string& field) const {
    const std::string& arm = report_.settings.arm;
    return !arm.empty() && field != arm && (field == "control" || field == "treatment");
  }

  void find_faults() {
    for_each_run([&](const Run& run) {
      for (const std::string& fault : run.faults) report_.faults.push_back(run.file + ": " + fault);
      for (const Unattributed& time : run.unattributed) {
        if (time.share <= report_.settings.max_unattributed) continue;
        report_.faults.push_back(
            fmt::format("{}: {}: {:.1f} % of the time belongs to no stage, more than {:.1f} %", run.file,
                        time.where, 100 * time.share, 100 * report_.settings.max_unattributed));
      }
    });
  }

  void add_notes() {
    for_each_run([&](const Run& run) {
      for (const std::string& note : run.notes) report_.notes.push_back(run.file + ": " + note);
      if (!run.fingerprint.empty()) return;
      report_.notes.push_back(fmt::format(
          "{}: {} files say nothing of scenario, device and versions, and {}: not checked", run.file,
          name_of(run.source),
          run.source == Source::nccl_tests ? "of wrong elements alone" : "nothing of verification"));
    });
    if (baseline_.size() == 1 && candidate_.size() == 1) {
      report_.notes.push_back("one cold start a side: how starts differ from each other is not seen");
    }
  }

  /// The arm that is compared with files that have none.
  [[nodiscard]] std::string shown_arm(const Phase& phase) const {
    return report_.settings.arm.empty() ? phase.arm : "";
  }

  void compare_phases() {
    if (baseline_.empty()) return;
    std::set<std::pair<std::string, std::string>> seen;
    for (const Run& run : baseline_) {
      for (const Phase& phase : run.phases) {
        if (!is_asked_for(phase, report_.settings)) continue;
        const std::pair key{shown_arm(phase), phase.name};
        if (seen.insert(key).second) compare_phase(key.first, key.second);
      }
    }
    if (seen.empty()) fail_input(fmt::format("{}: has no phase that was asked for", baseline_.front().file));
    add_news(seen);
  }

  /// What only candidates have is compared with nothing.
  void add_news(const std::set<std::pair<std::string, std::string>>& compared) {
    std::set<std::string> news;
    for (const Run& run : candidate_) {
      for (const Phase& phase : run.phases) {
        const std::pair key{shown_arm(phase), phase.name};
        if (is_asked_for(phase, report_.settings) && !compared.contains(key))
          news.insert(full_name(key.first, key.second));
      }
    }
    if (news.empty()) return;
    report_.notes.push_back(
        fmt::format("in no baseline and not compared: {}", listed({news.begin(), news.end()})));
  }

  /// The samples of every file; a fault where one has none.
  [[nodiscard]] Starts starts_of(const std::vector<Run>& runs, const std::string& arm,
                                 const std::string& name) {
    Starts starts;
    for (const Run& run : runs) {
      const auto phase = std::find_if(run.phases.begin(), run.phases.end(), [&](const Phase& p) {
        return p.name == name && shown_arm(p) == arm && is_asked_for(p, report_.settings);
      });
      if (phase == run.phases.end()) {
        report_.faults.push_back(fmt::format("{}: phase {} is missing", run.file, full_name(arm, name)));
      } else {
        starts.push_back(phase->seconds);
      }
    }
    return starts;
  }

  void compare_phase(const std::string& arm, const std::string& name) {
    const std::size_t faults = report_.faults.size();
    const Starts baseline = starts_of(baseline_, arm, name), candidate = starts_of(candidate_, arm, name);
    PhaseResult result{.arm = arm, .phase = name};
    if (report_.faults.size() == faults) {
      const Settings& settings = report_.settings;
      Threshold threshold{settings.max_regression,
                          settings.min_effect_s.value_or(usual_min_effect(baseline_.front().source))};
      for (const std::string& key : {name, full_name(arm, name)}) {
        if (const auto own = settings.of_phase.find(key); own != settings.of_phase.end())
          threshold.share = own->second;
      }
      result.decision =
          decide(baseline, candidate, threshold, mix64(settings.seed) + digest_text(full_name(arm, name)));
      const double center = result.decision.baseline.center;
      result.allowed = center > 0 ? std::max(threshold.share, threshold.seconds / center) : threshold.share;
      result.reason = reason_of(result.decision);
    } else {
      result.decision.verdict = Verdict::invalid;
      result.reason = "missing";
    }
    report_.phases.push_back(std::move(result));
  }

  [[nodiscard]] Verdict worst() const {
    if (!report_.faults.empty()) return Verdict::invalid;
    std::vector<Verdict> verdicts;
    for (const PhaseResult& phase : report_.phases) verdicts.push_back(phase.decision.verdict);
    for (const LimitResult& limit : report_.checked) verdicts.push_back(limit.decision.verdict);
    for (const Verdict verdict :
         {Verdict::invalid, Verdict::regression, Verdict::ambiguous, Verdict::improved}) {
      if (std::find(verdicts.begin(), verdicts.end(), verdict) != verdicts.end()) return verdict;
    }
    return Verdict::pass;
  }

  const std::vector<Run>&baseline_, &candidate_;
  Report report_;
};

}  // namespace

std::string reason_of(const Decision& decision) {
  if (!decision.needed) return "";
  const Needed& needed = *decision.needed;
  if (needed.hopeless) return "what was measured lies on the threshold: more samples will hardly settle it";
  const std::size_t more = needed.starts > 0 ? needed.starts : needed.samples;
  return fmt::format("too noisy to say: about {} more {}{} a side would settle it", more,
                     needed.starts > 0 ? "cold start" : "sample", more == 1 ? "" : "s");
}

Report judge(const std::vector<Run>& baseline, const std::vector<Run>& candidate, const Settings& settings,
             const std::optional<Limits>& limits, const std::optional<Mutants>& mutants) {
  return Judge(baseline, candidate, settings).judge(limits, mutants);
}

int exit_code(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::pass:
    case Verdict::improved:
      return 0;
    case Verdict::regression:
      return 1;
    case Verdict::invalid:
      return 2;
    case Verdict::ambiguous:
      return 3;
    case Verdict::mismatch:
      return 4;
  }
  return kRuntimeExit;
}

}  // namespace refit::gate
