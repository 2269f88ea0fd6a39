// What was run and whether its bytes are right: nobody should have to look for it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "page/html.hpp"
#include "page/sections.hpp"
#include "page/units.hpp"

namespace refit::page {
namespace {

/// A line for every check that found something, in an arm or a rank.
std::string differing_checks(const std::string& where, const Verdict& verdict) {
  if (!verdict) return "";
  std::string lines;
  for (const Check& check : *verdict) {
    if (check.mismatches == 0) continue;
    lines +=
        fmt::format("<li>{}: {} differs, {} mismatches", where, name(check.name), grouped(check.mismatches));
    if (!check.findings.empty()) {
      const Check::Finding& first = check.findings.front();
      lines += fmt::format(", first in {} at {}: expected {}, got {}", name(first.tensor), name(first.index),
                           name(first.expected), name(first.got));
    }
    lines += "</li>";
  }
  return lines;
}

std::string all_differing(const Result& result) {
  std::string lines;
  for (std::size_t arm = 0; arm < result.arms.size(); ++arm) {
    lines += differing_checks(kArms[arm], result.arms[arm].verdict);
  }
  std::vector<std::uint64_t> ranks;
  if (result.ranks) {
    for (const Rank& rank : result.ranks->rows) {
      if (differs(rank.arms[0].verdict) || differs(rank.arms[1].verdict)) ranks.push_back(rank.number);
    }
  }
  constexpr std::size_t kMostRanks = 16;
  if (!ranks.empty()) {
    const std::size_t shown = std::min(kMostRanks, ranks.size());
    lines += fmt::format("<li>{} of {} ranks differ: {}{}</li>", ranks.size(), result.ranks->rows.size(),
                         fmt::join(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                         shown < ranks.size() ? ", \u2026" : "");
  }
  return lines;
}

Banner verdict_banner(const Result& result) {
  const std::string wrong = all_differing(result);
  if (!wrong.empty()) return {"bad", "\u2717", "Verification failed", "<ul>" + wrong + "</ul>"};
  if (result.status == "mismatch") {
    return {"bad", "\u2717", "Verification failed", paragraph("The result says so without a finding.")};
  }
  std::string counts;
  std::vector<std::string> unverified;
  for (std::size_t arm = 0; arm < result.arms.size(); ++arm) {
    const std::uint64_t refits = result.arms[arm].verified_refits;
    if (!result.arms[arm].verdict || refits == 0) unverified.emplace_back(kArms[arm]);
    counts += fmt::format("{}{} {} of {}", counts.empty() ? "" : " and ", refits,
                          refits == 1 ? "refit" : "refits", kArms[arm]);
  }
  if (unverified.empty()) {
    return {"good", "\u2713", "Verified", paragraph("Every compared byte of " + counts + " is equal.")};
  }
  return {"warn", "!", "Not verified",
          paragraph(fmt::format("No refit of {} was compared: these times may be those of wrong bytes.",
                                fmt::join(unverified, " and ")))};
}

Banner banner_of(const Result& result) {
  if (result.status == "refused")
    return {"warn", "!", "Refused", paragraph(text(result.message)) + paragraph("Nothing was run.")};
  if (result.status == "failed") return {"bad", "\u2717", "Failed", paragraph(text(result.message))};
  if (result.status == "dry-run")
    return {"plain", "\u25cb", "Dry run", paragraph("Nothing was run: sizes alone.")};
  return verdict_banner(result);
}

std::string measured_text(const Result& result) {
  const auto steps = find(result.root, {"run", "measured_steps"}),
             warmup = find(result.root, {"run", "warmup_steps"});
  std::string text = "times of control and treatment, medians";
  if (steps && warmup) {
    text += fmt::format(" of {} steps of each after {} to warm up, the arms taking turns", steps->count(),
                        warmup->count());
  }
  text +=
      "; spread is half the interquartile range over the median; \u00d7 floor is a time over that of a plain "
      "copy of "
      "the same bytes on this machine.";
  if (result.ranks && !result.ranks->simulated)
    text += " A step takes as long as its slowest rank; stages are that rank\u2019s.";
  return text;
}

std::string published_text(const Result& result) {
  std::set<std::string> sources;
  for (const Arm& arm : result.arms) {
    for (const Phase& phase : arm.phases) {
      if (!phase.published_source.empty()) sources.insert(text(phase.published_source));
    }
  }
  if (sources.empty()) return "nothing is published for this scenario.";
  return fmt::format("quoted, not run here: {}.", fmt::join(sources, "; "));
}

bool has_stand_in(const Result& result) {
  for (const Arm& arm : result.arms) {
    for (const Phase& phase : arm.phases) {
      if (phase.source == "stand-in" && !phase.moved_nothing) return true;
    }
  }
  return false;
}

/// Which figures come from where.
std::string origins(const Result& result) {
  std::string list;
  if (!result.replayed.empty()) list += entry("Replayed", text(result.replayed));
  if (result.ranks && result.ranks->simulated) list += entry("Simulated", simulated_text(*result.ranks));
  list += entry("Measured", result.measured() ? measured_text(result) : "nothing.");
  if (has_stand_in(result)) {
    list +=
        entry("Stand-in",
              "offload and reference swap (marked *) are copies in host memory in place of device traffic.");
  }
  if (result.measured()) {
    list += entry("Extrapolated",
                  result.extrapolation > 1
                      ? fmt::format("where it is said: medians \u00d7 {:.2f}, computed, for the whole model.",
                                    result.extrapolation)
                      : std::string("nothing; the whole model was replayed."));
  }
  if (!result.arms.empty()) list += entry("Published", published_text(result));
  return "<dl class=\"origins\">\n" + list + "</dl>\n";
}

}  // namespace

std::string simulated_text(const Ranks& ranks) {
  return fmt::format(
      "<strong>only rank {} of {} ran.</strong> What the others send it was made here before each refit and "
      "moves "
      "at the speed of this memory; no link\u2019s time is in these figures.",
      *ranks.simulated, ranks.count);
}

std::string title_lines(const Result& result, const char* program) {
  std::string html = fmt::format("<p class=\"kicker\">{} \u00b7 {}</p>\n<h1>{}</h1>\n", program,
                                 text(result.name), text(result.title.empty() ? result.name : result.title));
  if (!result.description.empty()) html += "<p class=\"lead\">" + text(result.description) + "</p>\n";
  for (const std::string& note : result.notes) html += "<p class=\"note\">Note: " + text(note) + "</p>\n";
  return html;
}

std::string top_section(const Result& result) {
  return "<header>\n" + title_lines(result, "refit-bench") + banner(banner_of(result)) + origins(result) +
         "</header>\n";
}

}  // namespace refit::page
