// The one comparison that most people came for.
#include <fmt/format.h>

#include "page/html.hpp"
#include "page/sections.hpp"
#include "page/units.hpp"

namespace refit::page {
namespace {

std::string tile(const std::string& what, const std::string& value, const std::string& below,
                 const char* kind = "") {
  return fmt::format("<div class=\"tile {}\"><p>{}</p><p class=\"big\">{}</p><p>{}</p></div>\n", kind, what,
                     value, below);
}

std::string arm_tile(const char* arm, const Phase& transfer) {
  std::string below = fmt::format("spread {}\u00a0%", percent(transfer.spread));
  if (transfer.x_floor) below += fmt::format(", {}\u00a0\u00d7 floor", times(transfer.x_floor));
  return tile(fmt::format("<span class=\"dot {0}\"></span> {0}", arm), duration(*transfer.median), below,
              arm);
}

std::string ratio_tile(double ratio, const std::optional<std::pair<double, double>>& ci95) {
  const bool unclear = ci95 && ci95->first <= 1 && ci95->second >= 1;
  const std::string value = ratio < 1e-9 ? kNone
                            : ratio < 1  ? fmt::format("{:.3g}\u00a0\u00d7 as fast", 1 / ratio)
                                         : fmt::format("{:.3g}\u00a0\u00d7 as long", ratio);
  std::string below = fmt::format("takes {:.3g}\u00a0% of control\u2019s time", 100 * ratio);
  if (ci95)
    below += fmt::format(" (95\u00a0%: {:.3g} to {:.3g}\u00a0%)", 100 * ci95->first, 100 * ci95->second);
  return tile("treatment against control", unclear ? "no clear difference" : value, below);
}

}  // namespace

std::string headline_section(const Result& result) {
  if (!result.measured()) return "";
  const Phase* control = find_phase(result.arms[0], kTransfer);
  const Phase* treatment = find_phase(result.arms[1], kTransfer);
  if (control == nullptr || treatment == nullptr || !control->median || !treatment->median) return "";
  std::string tiles = arm_tile(kArms[0], *control) + arm_tile(kArms[1], *treatment);
  if (result.ratio) tiles += ratio_tile(*result.ratio, result.ci95);
  return fmt::format(
      "<section id=\"headline\"><h2>Transfer and update of the weights</h2>\n<div "
      "class=\"tiles\">\n{}</div></section>\n",
      tiles);
}

}  // namespace refit::page
