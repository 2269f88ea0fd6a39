// The report as text for people: aligned columns, at most 100 wide, every figure's origin named.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "refit/base/bytes.hpp"
#include "refit/report/report.hpp"
#include "report/figures.hpp"

namespace refit::report {
namespace {

constexpr std::size_t kWidth = 100;
constexpr std::size_t kShownFindings = 5;

/// Breaks at spaces; every line after the first begins with `indent` spaces. A longer word stays whole.
std::string wrapped(std::string_view text, std::size_t indent = 0) {
  std::string lines;
  std::size_t column = 0;
  bool line_is_empty = true;
  while (!text.empty()) {
    const std::size_t word = std::min(text.find(' '), text.size());
    if (!line_is_empty && column + 1 + word > kWidth) {
      lines += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!line_is_empty) {
      lines += ' ';
      ++column;
    }
    lines += text.substr(0, word);
    column += word;
    line_is_empty = false;
    text.remove_prefix(std::min(word + 1, text.size()));
  }
  return lines + "\n";
}

/// Four significant digits, never in powers of ten.
std::string seconds(const std::optional<double>& value) {
  if (!value) return "-";
  const double s = *value;
  const int decimals = s >= 1000 ? 0 : s >= 100 ? 1 : s >= 10 ? 2 : s >= 1 ? 3 : s >= 0.01 ? 4 : 6;
  return fmt::format("{:.{}f}", s, decimals);
}

/// As it was published: no digits are added.
std::string quoted(const std::optional<double>& value) {
  return value ? fmt::format("{}", *value) : "-";
}

std::string percent(const std::optional<double>& value, bool sign) {
  if (!value) return "-";
  return sign ? fmt::format("{:+.1f} %", 100 * *value) : fmt::format("{:.1f} %", 100 * *value);
}

std::string times(const std::optional<double>& value) {
  if (!value) return "-";
  return *value >= 100 ? fmt::format("{:.0f}", *value) : fmt::format("{:.1f}", *value);
}

/// "a / b", or "-" when there is neither.
std::string pair(const std::string& a, const std::string& b) {
  return a == "-" && b == "-" ? "-" : fmt::format("{} / {}", a, b);
}

std::string arrow(const std::string& a, const std::string& b) {
  return a == "-" && b == "-" ? "-" : fmt::format("{} -> {}", a, b);
}

std::optional<double> median(const PhaseFigures& phase) {
  return phase.summary ? std::optional(phase.summary->median) : std::nullopt;
}

std::string spread(const PhaseFigures& phase) {
  return times(phase.summary ? std::optional(100 * phase.summary->spread) : std::nullopt);
}

/// NAME=VALUE of what the arms do differently, and of what is not the default.
std::string differing_switches(const plan::Switches& control, const plan::Switches& treatment) {
  const auto off = plan::to_pairs(control), on = plan::to_pairs(treatment);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < off.size(); ++i) {
    if (off[i].second != on[i].second) {
      texts.push_back(fmt::format("{} {} -> {}", off[i].first, off[i].second, on[i].second));
    }
  }
  return texts.empty() ? "nothing: both arms are the same" : fmt::format("{}", fmt::join(texts, ", "));
}

std::string header(const Report& report) {
  std::string text;
  if (report.replay) text += wrapped(report.replay->sentence);
  text += wrapped(report.scenario.title, 2);
  for (const std::string& note : report.scenario.notes) text += wrapped("Note: " + note, 6);
  if (!report.replay) return text;
  const run::BenchSpec& spec = report.replay->spec;
  text += wrapped(fmt::format("off = control, on = treatment; they differ in {}.",
                              differing_switches(spec.control, spec.treatment)),
                  2);
  for (const auto& [name, switches] : {std::pair{"off", &spec.control}, std::pair{"on", &spec.treatment}}) {
    const auto ignored = plan::inapplicable(*switches);
    if (!ignored.empty()) {
      text +=
          wrapped(fmt::format("{}: pipeline=direct does not look at {}.", name, fmt::join(ignored, ", ")), 2);
    }
  }
  if (report.replay->buffers_scaled) {
    text += wrapped(
        fmt::format("buffer_size is scaled with the part of the model that is replayed: {} off, {} on.",
                    format_bytes(spec.control.buffer_size), format_bytes(spec.treatment.buffer_size)),
        2);
  }
  return text;
}

// --- phases
// ---------------------------------------------------------------------------------------------------------

/// A stand-in of a scenario without such traffic: what is timed is the timer.
bool copied_nothing(const PhaseFigures& phase) {
  return phase.source == Source::stand_in && median(phase).value_or(0) < 1e-6;
}

std::string phase_table(const Figures& figures) {
  std::string text = fmt::format("{:<30}{:>9} {:>9} {:>9} {:>11} {:>12} {:>15}\n", "phase", "off s", "on s",
                                 "change", "spread %", "x floor", "published s");
  std::string group;  // the name above indented rows
  for (std::size_t i = 0; i < figures.control.phases.size(); ++i) {
    const auto& [key, off] = figures.control.phases[i];
    const PhaseFigures& on = figures.treatment.phases[i].second;
    if (copied_nothing(off) && copied_nothing(on)) continue;
    const std::size_t slash = key.find('/');
    const std::string first = key.substr(0, slash);
    if (slash != key.npos && first != group) text += first + "\n";
    group = first;
    std::string name = slash == key.npos ? key : "  " + key.substr(slash + 1);
    if (off.source == Source::stand_in || on.source == Source::stand_in) name += " *";
    const bool timed = off.summary && on.summary;
    text += fmt::format("{:<30}{:>9} {:>9} {:>9} {:>11} {:>12} {:>15}\n", name, seconds(median(off)),
                        seconds(median(on)),
                        percent(timed ? figures.comparison[i].second.change : std::nullopt, true),
                        pair(spread(off), spread(on)), pair(times(off.x_floor), times(on.x_floor)),
                        arrow(quoted(off.published), quoted(on.published)));
  }
  return text;
}

std::string direct_floor_line(const Figures& figures) {
  for (std::size_t i = 0; i < figures.control.phases.size(); ++i) {
    const auto& off = figures.control.phases[i].second.x_direct_floor;
    const auto& on = figures.treatment.phases[i].second.x_direct_floor;
    if (!off && !on) continue;
    return wrapped(
        fmt::format("Staged transfer over the floor of a direct one: {} off, {} on.", times(off), times(on)),
        2);
  }
  return "";
}

std::string extrapolated_lines(const Report& report, const Figures& figures) {
  if (!report.replay || !report.replay->cut()) return "";
  std::string text = wrapped(
      fmt::format("extrapolated to the whole model: medians x {:.2f} (its floor bytes over those replayed)",
                  report.replay->extrapolation()),
      2);
  for (std::size_t i = 0; i < figures.control.phases.size(); ++i) {
    const auto& [key, off] = figures.control.phases[i];
    const PhaseFigures& on = figures.treatment.phases[i].second;
    if (!off.extrapolated && !on.extrapolated) continue;
    text += fmt::format("  {:<52}{:>10} {:>10}\n", key, seconds(off.extrapolated), seconds(on.extrapolated));
  }
  return text + "\n";
}

// --- stages
// ---------------------------------------------------------------------------------------------------------

const StageFigures* find_stage(const ArmFigures& arm, run::Role role, const std::string& name) {
  for (const StageFigures& stage : arm.stages) {
    if (stage.samples->role == role && stage.samples->name == name) return &stage;
  }
  return nullptr;
}

/// In the order in which the bytes flow; what is not known here comes last.
constexpr std::array<std::string_view, 12> kStageOrder = {"allocate", "gather",   "quantize", "pack",
                                                          "publish",  "transfer", "wait",     "open",
                                                          "load",     "shuffle",  "swizzle",  "commit"};

std::vector<std::string> stage_names(const Figures& figures, run::Role role) {
  std::vector<std::string> names;
  for (const ArmFigures* arm : {&figures.control, &figures.treatment}) {
    for (const StageFigures& stage : arm->stages) {
      const bool listed = std::find(names.begin(), names.end(), stage.samples->name) != names.end();
      if (stage.samples->role == role && !listed) names.push_back(stage.samples->name);
    }
  }
  std::stable_sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return std::find(kStageOrder.begin(), kStageOrder.end(), a) <
           std::find(kStageOrder.begin(), kStageOrder.end(), b);
  });
  return names;
}

std::string stage_table(const Figures& figures) {
  std::string text = fmt::format("{:<22}{:>9} {:>9} {:>19} {:>22} {:>14}\n", "stage", "off s", "on s",
                                 "launches", "bytes", "x floor");
  for (const run::Role role : {run::Role::trainer, run::Role::generator}) {
    text += fmt::format("{}\n", run::name_of(role));
    for (const std::string& name : stage_names(figures, role)) {
      const StageFigures* off = find_stage(figures.control, role, name);
      const StageFigures* on = find_stage(figures.treatment, role, name);
      const auto cell = [](const StageFigures* stage, auto&& show) {
        return stage == nullptr ? std::string("-") : show(*stage);
      };
      const auto median_s = [](const StageFigures& s) { return seconds(s.summary.median); };
      const auto launches = [](const StageFigures& s) { return fmt::format("{}", s.samples->launches); };
      const auto bytes = [](const StageFigures& s) {
        return s.samples->bytes == 0 ? std::string("-") : format_bytes(s.samples->bytes);
      };
      const auto floor = [](const StageFigures& s) { return times(s.x_floor); };
      text += fmt::format("  {:<20}{:>9} {:>9} {:>19} {:>22} {:>14}\n", name, cell(off, median_s),
                          cell(on, median_s), pair(cell(off, launches), cell(on, launches)),
                          pair(cell(off, bytes), cell(on, bytes)), pair(cell(off, floor), cell(on, floor)));
    }
    const auto share = [&](const ArmFigures& arm) {
      return role == run::Role::trainer ? arm.trainer.share : arm.generator.share;
    };
    const auto rest = [&](const ArmFigures& arm) {
      return role == run::Role::trainer ? arm.trainer.median : arm.generator.median;
    };
    text +=
        fmt::format("  {:<20}{:>9} {:>9}   {} of the wall time\n", "unattributed",
                    seconds(rest(figures.control)), seconds(rest(figures.treatment)),
                    pair(percent(share(figures.control), false), percent(share(figures.treatment), false)));
  }
  return text;
}

// --- traffic and verification
// ---------------------------------------------------------------------------------------

std::string traffic_lines(const char* name, const run::ArmResult& arm) {
  return wrapped(
      fmt::format("{:<4}{} on the wire in {} buckets; {} messages, {}; {} handles opened; at most {} beside "
                  "sources and parameters",
                  name, format_bytes(arm.wire_bytes), arm.buckets, arm.messages,
                  format_bytes(arm.message_bytes), arm.handles_opened, format_bytes(arm.peak_extra_bytes)),
      4);
}

std::string verify_lines(const char* name, const run::ArmResult& arm) {
  if (arm.verified_refits == 0) return fmt::format("{:<4}not verified\n", name);
  std::vector<std::string> verdicts;
  std::string findings;
  for (const verify::Check check : verify::kChecks) {
    const verify::Result& result = arm.verdict[check];
    verdicts.push_back(
        result.mismatches == 0
            ? fmt::format("{} equal ({})", verify::name_of(check), format_bytes(result.bytes))
            : fmt::format("{} DIFFERS ({} mismatches)", verify::name_of(check), result.mismatches));
    for (std::size_t i = 0; i < std::min(kShownFindings, result.findings.size()); ++i) {
      const verify::Finding& finding = result.findings[i];
      findings += wrapped(fmt::format("    {}: {} {} at byte {}: expected {}, got {}; {} in all",
                                      verify::name_of(check), finding.tensor, finding.what, finding.index,
                                      finding.expected, finding.got, finding.count),
                          6);
    }
    if (result.findings.size() > kShownFindings) {
      findings += fmt::format("    {}: and {} more tensors\n", verify::name_of(check),
                              result.findings.size() - kShownFindings);
    }
  }
  return wrapped(fmt::format("{:<4}{} {}: {}", name, arm.verified_refits,
                             arm.verified_refits == 1 ? "refit" : "refits", fmt::join(verdicts, ", ")),
                 4) +
         findings;
}

std::string run_line(const run::BenchResult& result, const run::BenchSpec& spec) {
  std::string text = fmt::format(
      "{} measured steps of each arm after {} to warm up, interleaved, {} threads in each "
      "process, seed {}, {:.1f} s",
      result.steps, result.warmup, spec.threads, spec.seed, result.seconds);
  if (result.stopped_early)
    text += fmt::format("; stopped early by the time budget of {:g} s", spec.time_budget_s);
  if (result.copy.bytes_per_second > 0) {
    text +=
        fmt::format("; this machine copies {:.2f} GB/s (read + written)", result.copy.bytes_per_second / 1e9);
  }
  return wrapped(text + ".", 2);
}

/// Which figures come from where.
std::string legend(const Report& report, const Figures& figures) {
  bool stand_in = false;
  std::set<std::string> sources;
  for (const ArmFigures* arm : {&figures.control, &figures.treatment}) {
    for (const auto& [key, phase] : arm->phases) {
      stand_in = stand_in || phase.source == Source::stand_in;
      if (!phase.published_source.empty()) sources.insert(phase.published_source);
    }
  }
  std::string text = report.result
                         ? "Measured here: all seconds off and on (medians; spread is half the interquartile "
                           "range), x floor against this machine's copy bandwidth."
                         : "Nothing was measured.";
  if (stand_in) text += " * holds host-memory copies in place of device traffic.";
  if (report.result && report.replay->cut()) text += " Extrapolated lines are computed, not measured.";
  text += sources.empty() ? " Nothing is published for this scenario."
                          : fmt::format(" Published: {}.", fmt::join(sources, "; "));
  return wrapped(text, 2);
}

std::string result_text(const Report& report, const Figures& figures) {
  const run::BenchResult& result = *report.result;
  return run_line(result, report.replay->spec) + "\n" + phase_table(figures) + direct_floor_line(figures) +
         "\n" + extrapolated_lines(report, figures) + stage_table(figures) + "\n" +
         traffic_lines("off", result.control) + traffic_lines("on", result.treatment) + "\nverify\n" +
         verify_lines("off", result.control) + verify_lines("on", result.treatment) + "\n" +
         legend(report, figures);
}

// --- dry run
// --------------------------------------------------------------------------------------------------------

std::string amount_row(const std::string& name, const std::string& whole, const std::string& part) {
  return fmt::format("  {:<38}{:>26} {:>26}\n", name, whole, part);
}

std::string plan_text(const Report& report) {
  const scenario::Amounts& whole = report.replay->whole;
  const scenario::Amounts& part = report.replay->part;
  const auto count = [&](const char* name, std::uint64_t scenario::Amounts::*member) {
    return amount_row(name, fmt::format("{}", whole.*member), fmt::format("{}", part.*member));
  };
  const auto arm = [&](const char* name, std::uint64_t scenario::ArmAmounts::*member) {
    return amount_row(name, fmt::format("{} / {}", whole.control.*member, whole.treatment.*member),
                      fmt::format("{} / {}", part.control.*member, part.treatment.*member));
  };
  return amount_row("", "whole model", "replayed") + count("layers", &scenario::Amounts::layers) +
         count("routed experts of a layer", &scenario::Amounts::experts) +
         count("tensors", &scenario::Amounts::tensors) +
         count("  quantized", &scenario::Amounts::quantized_tensors) +
         count("parameters", &scenario::Amounts::parameters) + count("bytes", &scenario::Amounts::bytes) +
         count("  routed experts", &scenario::Amounts::expert_bytes) +
         count("engine's bytes", &scenario::Amounts::destination_bytes) +
         amount_row("floor: read once, written once", fmt::format("{}", whole.floor_bytes()),
                    fmt::format("{}", part.floor_bytes())) +
         arm("bytes on the wire, off / on", &scenario::ArmAmounts::wire_bytes) +
         arm("keys, off / on", &scenario::ArmAmounts::keys) +
         arm("buckets, off / on", &scenario::ArmAmounts::buckets) +
         count("memory of both processes", &scenario::Amounts::memory_needed) +
         fmt::format("  memory budget {}\n", format_bytes(report.replay->memory_budget));
}

std::string model_text(const model::Inventory& model) {
  std::string text = fmt::format("{}: {} tensors, {} parameters, {} bytes", model.architecture,
                                 model.tensors.size(), model.parameters(), model.bytes());
  if (model.moe()) text += fmt::format(", {} of them routed experts", model.expert_bytes());
  if (!model.mtp.empty()) {
    text +=
        fmt::format("; {} more tensors for multi-token prediction, which no refit moves", model.mtp.size());
  }
  return wrapped(text + ".", 2);
}

}  // namespace

std::string to_table(const Report& report) {
  const Figures figures = derive(report);
  std::string text = header(report);
  if (report.result) return text + result_text(report, figures);
  text += model_text(report.model);
  if (report.replay) text += "\n" + plan_text(report) + "\n" + legend(report, figures);
  if (report.status == Status::refused) text += wrapped("Refused: " + report.message, 2);
  if (report.status == Status::failed) text += wrapped("Failed: " + report.message, 2);
  return text;
}

}  // namespace refit::report
