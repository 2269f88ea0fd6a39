// Both arms one above the other on one scale.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "page/bars.hpp"
#include "page/html.hpp"
#include "page/sections.hpp"

namespace refit::page {
namespace {

using StageSeconds = double (*)(const Stage&);

double host_seconds(const Stage& stage) {
  return stage.median;
}
double device_seconds(const Stage& stage) {
  return stage.device_s.value_or(0);
}

bool has_role(const Arm& arm, const std::string& role) {
  return std::any_of(arm.stages.begin(), arm.stages.end(),
                     [&](const Stage& stage) { return stage.role == role; });
}

std::vector<Piece> pieces_of(const Arm& arm, const std::string& role, StageSeconds seconds) {
  std::vector<Piece> pieces;
  for (const Stage& stage : arm.stages) {
    if (stage.role == role) pieces.push_back({stage.name, seconds(stage)});
  }
  return pieces;
}

double offload_of(const Arm& arm) {
  const Phase* offload = find_phase(arm, kOffload);
  return offload == nullptr || offload->moved_nothing ? 0 : offload->median.value_or(0);
}

std::string lane_name(const Result& result, std::size_t arm) {
  if (!result.ranks) return "trainer";
  if (result.ranks->simulated) return fmt::format("rank {}", *result.ranks->simulated);
  const auto& slowest = result.ranks->straggler[arm];
  return slowest ? fmt::format("slowest: rank {}", *slowest) : "slowest rank";
}

/// The trainer's control thread, and the generator's in the same time.
std::vector<Bar> arm_bars(const Result& result, std::size_t index, bool by_device) {
  const Arm& arm = result.arms[index];
  const StageSeconds seconds = by_device ? device_seconds : host_seconds;
  const double offload = by_device ? 0 : offload_of(arm);
  std::vector<Bar> bars;
  std::vector<Piece> pieces = pieces_of(arm, "trainer", seconds);
  if (offload > 0) pieces.insert(pieces.begin(), {"offload", offload});
  if (!by_device && arm.trainer_rest) pieces.push_back({"unattributed", *arm.trainer_rest});
  bars.push_back({lane_name(result, index), fmt::format("{}, {}", kArms[index], lane_name(result, index)),
                  std::move(pieces), 0, 40});
  if (!has_role(arm, "generator")) return bars;
  pieces = pieces_of(arm, "generator", seconds);
  if (!by_device && arm.generator_rest) pieces.push_back({"unattributed", *arm.generator_rest});
  bars.push_back({"generator", fmt::format("{}, generator", kArms[index]), std::move(pieces), offload, 26});
  return bars;
}

std::string arm_heading(const char* arm, double seconds, const std::string& more) {
  return fmt::format("<p class=\"arm\"><span class=\"dot {0}\"></span> <strong>{0}</strong> {1}{2}</p>\n",
                     arm, duration(seconds), more);
}

struct Group {
  const char* arm;
  double seconds;
  std::vector<Bar> bars;
  std::string more;  ///< said beside its name and seconds
};

/// On one scale where there are two.
std::string figure(const std::vector<Group>& groups, const Looks& looks, const std::string& caption) {
  std::vector<Bar> all;
  for (const Group& group : groups) all.insert(all.end(), group.bars.begin(), group.bars.end());
  double end = end_of(all);
  for (const Group& group : groups) end = std::max(end, group.seconds);
  std::string html;
  for (const Group& group : groups) {
    html += arm_heading(group.arm, group.seconds, group.more);
    for (const Bar& bar : group.bars) html += stacked_bar(bar, end, looks);
  }
  return "<figure>\n" + html + time_axis(end) + legend(all, end, looks) +
         (caption.empty() ? "" : "<figcaption>" + caption + "</figcaption>\n") + "</figure>\n";
}

std::vector<std::string> names_of(const Result& result) {
  std::vector<std::string> names;
  for (const Arm& arm : result.arms) {
    for (const Stage& stage : arm.stages) names.push_back(stage.name);
  }
  return names;
}

double prepare_seconds(const Arm& arm, const std::vector<Bar>& bars) {
  const Phase* whole = find_phase(arm, kPrepare);
  return whole != nullptr && whole->median ? *whole->median : end_of(bars);
}

/// An arm so much shorter that nothing in it can be told apart: once more on a scale of its own.
std::string enlarged(const std::vector<Group>& groups, const Looks& looks) {
  constexpr double kShort = 0.3;
  for (std::size_t i = 0; i < 2; ++i) {
    const double own = groups[i].seconds, other = groups[1 - i].seconds;
    if (own <= 0 || own > kShort * other) continue;
    Group alone = groups[i];
    alone.more = fmt::format(", enlarged {:.3g} times", other / own);
    return figure({alone}, looks, "");
  }
  return "";
}

std::string measured_bars(const Result& result) {
  const Looks looks(names_of(result));
  std::vector<Group> groups;
  for (std::size_t arm = 0; arm < result.arms.size(); ++arm) {
    std::vector<Bar> bars = arm_bars(result, arm, false);
    const double seconds = prepare_seconds(result.arms[arm], bars);
    groups.push_back({kArms[arm], seconds, std::move(bars), ""});
  }
  std::string caption =
      result.ranks
          ? "What the slowest rank of each arm does, stage by stage."
          : "What the control thread of either process does, stage by stage; both run at the same time.";
  caption += " Medians, so that a bar may end a little beside the median of its arm.";
  if (result.on_gpu)
    caption +=
        " By the host\u2019s clock, on which a stage ends when its work has been asked for; what is left of "
        "it "
        "shows as synchronize.";
  return figure(groups, looks, caption) + enlarged(groups, looks);
}

bool has_device_times(const Arm& arm) {
  return std::any_of(arm.stages.begin(), arm.stages.end(), [](const Stage& stage) { return stage.device_s; });
}

/// Of stages that a GPU did in a refit of its own.
std::string device_bars(const Result& result) {
  if (!has_device_times(result.arms[0]) || !has_device_times(result.arms[1])) return "";
  const Looks looks(names_of(result));
  std::vector<Group> groups;
  for (std::size_t arm = 0; arm < result.arms.size(); ++arm) {
    std::vector<Bar> bars = arm_bars(result, arm, true);
    const double seconds = end_of(bars);
    groups.push_back({kArms[arm], seconds, std::move(bars), ""});
  }
  return "<h3>The same by the GPU\u2019s own clock</h3>\n" +
         figure(groups, looks,
                "Events of the GPU in the last warm-up refit of each arm: what stages really take, asked for "
                "or not.") +
         enlarged(groups, looks);
}

/// Phases of a whole training step, as somebody measured them elsewhere; what is left of the step last.
std::vector<Piece> published_pieces(const Arm& arm, double whole) {
  std::vector<Piece> pieces;
  double known = 0;
  for (const Phase& phase : arm.phases) {
    const std::size_t slash = phase.key.find('/');
    if (!phase.published || phase.key == kStep || (slash != phase.key.npos && phase.key != kPrepare))
      continue;
    pieces.push_back({phase.key.substr(0, slash), *phase.published});
    known += *phase.published;
  }
  if (whole > known) pieces.push_back({"other", whole - known});
  return pieces;
}

std::string published_bars(const Result& result) {
  std::vector<Group> groups;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < result.arms.size(); ++i) {
    const Phase* step = find_phase(result.arms[i], kStep);
    if (step == nullptr || !step->published) return "";
    Bar bar{"step", fmt::format("{}, published step", kArms[i]),
            published_pieces(result.arms[i], *step->published), 0, 40};
    for (const Piece& piece : bar.pieces) names.push_back(piece.name);
    groups.push_back({kArms[i], *step->published, {std::move(bar)}, ""});
  }
  if (groups.empty()) return "";
  return section("published", "A whole training step, as it was published",
                 figure(groups, Looks(names),
                        "Quoted for scale, not run here; the refit is part of "
                        "prepare_for_generation."));
}

}  // namespace

std::string bars_section(const Result& result) {
  if (result.arms.empty()) return "";
  std::string html;
  if (result.measured()) {
    html = section("bars", "Where the time of a refit goes", measured_bars(result) + device_bars(result));
  }
  return html + published_bars(result);
}

}  // namespace refit::page
