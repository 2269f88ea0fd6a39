// The report as text for people: aligned columns, at most 100 wide, every figure's origin named.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "refit/base/bytes.hpp"
#include "refit/report/report.hpp"
#include "report/figures.hpp"
#include "report/sections.hpp"
#include "report/text.hpp"

namespace refit::report {
namespace {

/// NAME OFF -> ON of what the arms do differently, without what neither looks at.
std::string differing_switches(const Report& report) {
  const plan::Switches &control = report.replay->spec.control, &treatment = report.replay->spec.treatment;
  const auto unused_off = inapplicable(report, control), unused_on = inapplicable(report, treatment);
  const auto in = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const auto off = plan::to_pairs(control), on = plan::to_pairs(treatment);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < off.size(); ++i) {
    if (off[i].second != on[i].second && !(in(unused_off, off[i].first) && in(unused_on, off[i].first))) {
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
  text += wrapped(
      fmt::format("off = control, on = treatment; they differ in {}.", differing_switches(report)), 2);
  for (const auto& [name, switches] : {std::pair{"off", &spec.control}, std::pair{"on", &spec.treatment}}) {
    const auto ignored = inapplicable(report, *switches);
    if (!ignored.empty()) {
      text += wrapped(fmt::format("{}: {} look at {}.", name,
                                  on_ranks(report) ? "ranks do not" : "pipeline=direct does not",
                                  fmt::join(ignored, ", ")),
                      2);
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

std::string copy_text(const Report& report) {
  const run::CopyBandwidth& copy = report.result->copy;
  const bool gpu = is_gpu(*report.result);
  if (copy.bytes_per_second <= 0) return "";
  std::string text = fmt::format("; {} copies {:.2f} GB/s (read + written)",
                                 on_ranks(report) ? reporting_rank(report) + (gpu ? "'s GPU" : " alone")
                                                  : std::string(gpu ? "the GPU" : "this machine"),
                                 copy.bytes_per_second / 1e9);
  const auto to_host = median_of(copy.to_host), from_host = median_of(copy.from_host);
  if (to_host && from_host) {
    text += fmt::format(", {:.2f} GB/s to and {:.2f} GB/s from pinned host memory", *to_host / 1e9,
                        *from_host / 1e9);
  }
  if (const auto peer = median_of(copy.peer))
    text += fmt::format(", {:.2f} GB/s to another GPU", *peer / 1e9);
  return text;
}

std::string run_line(const Report& report) {
  const run::BenchResult& result = *report.result;
  const run::BenchSpec& spec = report.replay->spec;
  std::string text =
      fmt::format("{} measured steps of each arm after {} to warm up, interleaved, {}seed {}, {:.1f} s",
                  result.steps, result.warmup,
                  is_gpu(result) ? ""
                                 : fmt::format("{} threads in each {}, ", spec.backend.threads,
                                               on_ranks(report) ? "rank" : "process"),
                  spec.seed, result.seconds);
  if (result.stopped_early)
    text += fmt::format("; stopped early by the time budget of {:g} s", spec.time_budget_s);
  return wrapped(text + copy_text(report) + ".", 2);
}

std::string measured_text(const Report& report, const Figures& figures) {
  std::string text = fmt::format(
      "Measured here: all seconds off and on (medians; spread is half the interquartile range), x floor "
      "against "
      "{} copy bandwidth.",
      on_ranks(report) ? reporting_rank(report) + "'s"
                       : std::string(is_gpu(*report.result) ? "the GPU's" : "this machine's"));
  if (on_ranks(report) && !report.scenario.ranks->simulated) {
    text +=
        " A step's seconds are those of its slowest rank, its floor that of the rank with most to move; "
        "stages are those of the rank whose median is largest.";
  }
  if (figures.device_times) {
    text +=
        " off gpu and on gpu are by the GPU's own events in the last warm-up refit, and so is a stage's x "
        "floor: "
        "the host's seconds of a stage end when its work is asked for, not when it is done.";
  }
  return text;
}

/// Which figures come from where.
std::string legend(const Report& report, const Figures& figures) {
  bool stand_in = false;
  std::set<std::string> sources;
  for (const ArmFigures* arm : {&figures.control, &figures.treatment}) {
    for (const auto& [key, phase] : arm->phases) {
      stand_in = stand_in || (phase.source == Source::stand_in && !phase.moved_nothing);
      if (!phase.published_source.empty()) sources.insert(phase.published_source);
    }
  }
  std::string text = report.result ? measured_text(report, figures) : "Nothing was measured.";
  if (stand_in) text += " * holds host-memory copies in place of device traffic.";
  if (report.result && report.replay->cut()) text += " Extrapolated lines are computed, not measured.";
  text += sources.empty() ? " Nothing is published for this scenario."
                          : fmt::format(" Published: {}.", fmt::join(sources, "; "));
  return wrapped(text, 2);
}

std::string result_text(const Report& report, const Figures& figures) {
  const std::string ranks = report.ranks ? ranks_section(report) + "\n" : "";
  return run_line(report) + device_section(report) + "\n" + phase_section(report, figures) +
         stage_section(report, figures) + "\n" + ranks + outcome_section(report) + "\n" +
         legend(report, figures);
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
  const std::string projected =
      report.projection ? "\n" + project::to_text(*report.projection, report.scenario) : "";
  if (report.result) return text + result_text(report, figures) + projected;
  text += model_text(report.model);
  if (report.replay) text += "\n" + plan_section(report) + "\n" + legend(report, figures) + projected;
  if (report.status == Status::refused) text += wrapped("Refused: " + report.message, 2);
  if (report.status == Status::failed) text += wrapped("Failed: " + report.message, 2);
  return text;
}

}  // namespace refit::report
