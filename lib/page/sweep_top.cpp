// What was swept, and at how many points something is wrong with it.
#include <fmt/format.h>

#include <algorithm>

#include "page/html.hpp"
#include "page/sections.hpp"
#include "page/sweep.hpp"
#include "page/units.hpp"

namespace refit::page {
namespace {

using Chosen = bool (*)(const SweepPoint&);

std::size_t count_of(const Sweep& sweep, Chosen chosen) {
  return static_cast<std::size_t>(std::count_if(sweep.points.begin(), sweep.points.end(), chosen));
}

/// "3 of 8 points", and which.
std::string which(const Sweep& sweep, Chosen chosen) {
  constexpr std::size_t kMostListed = 16;
  std::string items;
  std::size_t shown = 0;
  for (const SweepPoint& point : sweep.points) {
    if (chosen(point) && shown++ < kMostListed) items += "<li>" + settings_of(sweep, point) + "</li>";
  }
  if (shown > kMostListed) items += fmt::format("<li>and {} more</li>", shown - kMostListed);
  return paragraph(fmt::format("{} of {} points:", shown, sweep.points.size())) + "<ul>" + items + "</ul>";
}

Banner banner_of(const Sweep& sweep) {
  const auto wrong = [](const SweepPoint& p) { return p.wrong; };
  const auto failed = [](const SweepPoint& p) { return p.status == "failed"; };
  const auto refused = [](const SweepPoint& p) { return p.status == "refused"; };
  const auto unverified = [](const SweepPoint& p) { return p.ran && !p.verified && !p.wrong; };
  const auto ran = [](const SweepPoint& p) { return p.ran; };
  if (count_of(sweep, wrong) > 0) return {"bad", "\u2717", "Verification failed", which(sweep, wrong)};
  if (count_of(sweep, failed) > 0) return {"bad", "\u2717", "Failed", which(sweep, failed)};
  if (count_of(sweep, refused) > 0) return {"warn", "!", "Refused", which(sweep, refused)};
  if (count_of(sweep, unverified) > 0) return {"warn", "!", "Not verified", which(sweep, unverified)};
  const std::size_t all = count_of(sweep, ran);
  if (all == 0) return {"plain", "\u25cb", "Dry run", paragraph("Nothing was run: sizes alone.")};
  const std::string points = all == 1 ? "the one point" : fmt::format("all {} points", all);
  return {"good", "\u2713", "Verified", paragraph("Every compared byte of " + points + " is equal.")};
}

std::string origins(const Sweep& sweep) {
  std::string list, swept;
  for (const SweepAxis& axis : sweep.axes) {
    std::string values;
    for (const std::string& value : axis.values) values += (values.empty() ? "" : ", ") + text(value);
    swept += fmt::format("{}{}: {}", swept.empty() ? "" : "; ", name(axis.key), values);
  }
  list += entry("Swept", swept + ". A bench of its own for each combination.");
  if (sweep.replayed.size() == 1) list += entry("Replayed", text(sweep.replayed.front()));
  if (sweep.replayed.size() > 1)
    list += entry("Replayed", "another part of the model at some points than at others, as is swept.");
  if (sweep.first.ranks && sweep.first.ranks->simulated)
    list += entry("Simulated", simulated_text(*sweep.first.ranks));
  list += entry("Measured", sweep.first.measured()
                                ? "transfer_and_update_weights of control and treatment, medians of each "
                                  "point; \u00d7 floor is a time over that of a plain copy of the same bytes "
                                  "on this machine, measured anew at each point."
                                : "nothing.");
  return "<dl class=\"origins\">\n" + list + "</dl>\n";
}

}  // namespace

std::string sweep_top_section(const Sweep& sweep) {
  return "<header>\n" + title_lines(sweep.first, "refit-bench --sweep") + banner(banner_of(sweep)) +
         origins(sweep) + "</header>\n";
}

}  // namespace refit::page
