// Medians, multiples of the floor, extrapolations and comparisons.
#include "report/figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace refit::report {
namespace {

constexpr std::string_view kTransfer = "prepare_for_generation/transfer_and_update_weights";
constexpr std::string_view kOffload = "prepare_for_generation/offload_before_refit";
constexpr std::string_view kSwap = "policy_and_reference_logprobs/reference_swap";

/// a / b, or nothing where that is no number.
std::optional<double> quotient(double a, double b) {
  const double value = a / b;
  return b != 0 && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::optional<Summary> summary_of(const std::vector<double>& samples) {
  return samples.empty() ? std::nullopt : std::optional(summarize(samples));
}

/// How long a copy of `bytes` would take.
std::optional<double> copy_seconds(std::uint64_t bytes, double bytes_per_second) {
  if (bytes == 0) return std::nullopt;
  return quotient(static_cast<double>(bytes), std::max(0.0, bytes_per_second));
}

/// Seconds over the seconds that a copy of `bytes` would take.
std::optional<double> multiple(double seconds, std::uint64_t bytes, double bytes_per_second) {
  const std::optional<double> floor = copy_seconds(bytes, bytes_per_second);
  return floor ? quotient(seconds, *floor) : std::nullopt;
}

/// Memory traffic and, where the speed to another GPU was measured, what goes between ranks.
void add_floor(const run::PhaseSamples& timed, const run::CopyBandwidth& copy, PhaseFigures& phase) {
  phase.floor_bytes = timed.floor_bytes;
  phase.link_bytes = timed.link_bytes;
  phase.floor = copy_seconds(timed.floor_bytes, copy.bytes_per_second);
  const auto links = copy_seconds(timed.link_bytes, median_of(copy.peer).value_or(0));
  if (!links || !phase.floor || *links <= *phase.floor) return;
  phase.floor = links;
  phase.link_bound = true;
}

bool moves_nothing(std::string_view key, const run::HostTraffic& traffic, const plan::Switches& switches) {
  if (key == kSwap) return traffic.reference_swap_bytes == 0;
  if (key != kOffload) return false;
  return (switches.offload == plan::Offload::slim ? traffic.offload_slim_bytes
                                                  : traffic.offload_full_bytes) == 0;
}

/// "a" of "a/b" and of "a".
std::string_view group_of(std::string_view key) {
  return key.substr(0, key.find('/'));
}

/// NeMo-RL's names in their order, with what else was timed behind the last one of the same group.
std::vector<std::string> keys_of(const Report& report) {
  const auto& known = scenario::phase_keys();
  std::vector<std::string> keys(known.begin(), known.end());
  if (!report.result) return keys;
  for (const run::ArmResult* arm : {&report.result->control, &report.result->treatment}) {
    for (const auto& [key, phase] : arm->phases) {
      if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
      const auto last =
          std::find_if(keys.rbegin(), keys.rend(),
                       [&, group = group_of(key)](const std::string& k) { return group_of(k) == group; });
      keys.insert(last == keys.rend() ? keys.end() : last.base(), key);
    }
  }
  return keys;
}

PhaseFigures phase_figures(const Report& report, const run::ArmResult* arm, const std::string& key,
                           std::optional<double> scenario::PublishedPhase::*side) {
  PhaseFigures phase;
  if (const auto published = report.scenario.phases.find(key); published != report.scenario.phases.end()) {
    phase.published = published->second.*side;
    if (phase.published) phase.published_source = published->second.source;
  }
  phase.source = phase.published ? Source::published : Source::not_published;
  if (arm == nullptr || !arm->phases.contains(key)) return phase;

  const run::PhaseSamples& timed = arm->phases.at(key);
  const double bandwidth = report.result->copy.bytes_per_second;
  phase.source = timed.stand_in ? Source::stand_in : Source::measured;
  phase.samples = timed.seconds;
  phase.summary = summary_of(timed.seconds);
  add_floor(timed, report.result->copy, phase);
  phase.moved_nothing = report.replay && moves_nothing(key, report.replay->spec.host_traffic, arm->switches);
  if (!phase.summary) return phase;
  if (phase.floor) phase.x_floor = quotient(phase.summary->median, *phase.floor);
  if (key == kTransfer && arm->switches.pipeline == plan::Pipeline::staged) {
    // The bytes of a result of ranks are those of all of them, which move theirs at the same time.
    phase.x_direct_floor =
        on_ranks(report)
            ? phase.x_floor
            : multiple(phase.summary->median, report.result->source_bytes + report.result->destination_bytes,
                       bandwidth);
    std::uint64_t own = 0;
    for (const run::StageSamples& stage : arm->stages) own += stage.bytes;
    phase.x_own_floor = multiple(phase.summary->median, own, bandwidth);
  }
  if (report.replay && report.replay->cut()) {
    phase.extrapolated = phase.summary->median * report.replay->extrapolation();
  }
  return phase;
}

/// How long a GPU took only a GPU can say: the host's clock stops when the work has been asked for.
std::optional<double> seconds_of_work(const run::BenchResult& result, const run::StageSamples& stage,
                                      const Summary& host) {
  if (stage.device_seconds || is_gpu(result)) return stage.device_seconds;
  return host.median;
}

RoleFigures role_figures(const run::ArmResult::RoleTime& time) {
  return {&time, median_of(time.unattributed), share_of(time.unattributed, time.wall)};
}

ArmFigures arm_figures(const Report& report, const run::ArmResult* arm,
                       std::optional<double> scenario::PublishedPhase::*side) {
  ArmFigures figures;
  for (const std::string& key : keys_of(report)) {
    figures.phases.emplace_back(key, phase_figures(report, arm, key, side));
  }
  if (arm == nullptr) return figures;
  const auto trainer_has = [&](const std::string& name) {
    return std::any_of(arm->stages.begin(), arm->stages.end(), [&](const run::StageSamples& stage) {
      return stage.role == run::Role::trainer && stage.name == name;
    });
  };
  for (const run::StageSamples& stage : arm->stages) {
    const bool shared = stage.role == run::Role::generator && trainer_has(stage.name);
    const Summary summary = summarize(stage.seconds);
    const auto seconds = seconds_of_work(*report.result, stage, summary);
    figures.stages.push_back(
        {shared ? "generator." + stage.name : stage.name, &stage, summary,
         seconds ? multiple(*seconds, stage.bytes, report.result->copy.bytes_per_second) : std::nullopt});
  }
  figures.trainer = role_figures(arm->trainer);
  figures.generator = role_figures(arm->generator);
  return figures;
}

Comparison compare(const PhaseFigures& control, const PhaseFigures& treatment) {
  Comparison comparison;
  if (control.summary && treatment.summary) {
    comparison.source = control.source;
    comparison.control = control.summary->median;
    comparison.treatment = treatment.summary->median;
    // Any fixed seed: the same samples give the same interval.
    const Interval interval = bootstrap_ratio(control.samples, treatment.samples, 1);
    if (interval.high > 0) comparison.ci95 = interval;
  } else {
    comparison.control = control.published;
    comparison.treatment = treatment.published;
    if (control.published || treatment.published) comparison.source = Source::published;
  }
  if (comparison.control && comparison.treatment) {
    comparison.ratio = quotient(*comparison.treatment, *comparison.control);
    if (comparison.ratio) comparison.change = *comparison.ratio - 1;
  }
  return comparison;
}

}  // namespace

bool are_known(const device::Clocks& clocks) noexcept {
  return clocks.sm_mhz || clocks.memory_mhz || clocks.temperature_c || clocks.power_mw ||
         !clocks.throttle_reasons.empty();
}

std::optional<double> median_of(const std::vector<double>& samples) {
  const auto summary = summary_of(samples);
  return summary ? std::optional(summary->median) : std::nullopt;
}

std::optional<double> share_of(const std::vector<double>& part, const std::vector<double>& wall) {
  return quotient(std::accumulate(part.begin(), part.end(), 0.0),
                  std::accumulate(wall.begin(), wall.end(), 0.0));
}

std::string reporting_rank(const Report& report) {
  return fmt::format("rank {}", report.scenario.ranks->reporting());
}

std::vector<std::string> inapplicable(const Report& report, const plan::Switches& switches) {
  return on_ranks(report) ? ranks::unused_switches(switches) : plan::inapplicable(switches);
}

std::string_view name_of(Source source) noexcept {
  switch (source) {
    case Source::measured:
      return "measured";
    case Source::stand_in:
      return "stand-in";
    case Source::published:
      return "published";
    case Source::not_published:
      return "not-published";
  }
  return "not-published";
}

Figures derive(const Report& report) {
  const run::BenchResult* result = report.result ? &*report.result : nullptr;
  Figures figures;
  figures.control = arm_figures(report, result == nullptr ? nullptr : &result->control,
                                &scenario::PublishedPhase::control_s);
  figures.treatment = arm_figures(report, result == nullptr ? nullptr : &result->treatment,
                                  &scenario::PublishedPhase::treatment_s);
  for (const ArmFigures* arm : {&figures.control, &figures.treatment}) {
    for (const StageFigures& stage : arm->stages) {
      figures.device_times = figures.device_times || stage.samples->device_seconds;
    }
  }
  for (std::size_t i = 0; i < figures.control.phases.size(); ++i) {
    figures.comparison.emplace_back(
        figures.control.phases[i].first,
        compare(figures.control.phases[i].second, figures.treatment.phases[i].second));
  }
  return figures;
}

}  // namespace refit::report
