// One change at a time.
#include "refit/project/what_if.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/json.hpp"
#include "refit/base/error.hpp"

namespace refit::project {
namespace {

constexpr std::size_t kShown = 5;

/// What a change may touch.
struct Setting {
  scenario::Scenario scenario;
  Platform platform;
  Stack stack;
};

struct Idea {
  std::string name;
  std::function<void(Setting&)> apply;
};

void add_switches(const plan::Switches& base, std::vector<Idea>& ideas) {
  const auto now = plan::to_pairs(base);
  const auto add = [&](const std::string& name, const std::string& value) {
    const auto is =
        std::find_if(now.begin(), now.end(), [&](const auto& pair) { return pair.first == name; });
    if (is != now.end() && is->second == value) return;
    ideas.push_back({fmt::format("{}={}", name, value), [=](Setting& setting) {
                       plan::set_switch(setting.scenario.control.switches, name, value);
                     }});
  };
  for (const auto& [name, value] : {std::pair{"prequantize", "on"},
                                    {"quantize", "batched"},
                                    {"quantize", "per-bucket"},
                                    {"metadata", "key-list"},
                                    {"handle_encoding", "arguments-only"},
                                    {"handles", "per-bucket"},
                                    {"ipc_buffers", "persistent"},
                                    {"double_buffer", "on"},
                                    {"loader", "cached"},
                                    {"shuffle", "batched"},
                                    {"shuffle", "fused"}}) {
    add(name, value);
  }
  if (base.pipeline != plan::Pipeline::direct) {
    ideas.push_back({"pipeline=direct", [](Setting& setting) {
                       plan::Switches& switches = setting.scenario.control.switches;
                       switches.pipeline = plan::Pipeline::direct;
                       switches.prequantize = true;  // it quantizes where the weights are
                     }});
  }
  for (const std::uint64_t size : {base.buffer_size / 4, base.buffer_size * 2, base.buffer_size * 4}) {
    ideas.push_back({fmt::format("buffer_size={:g} GiB", double(size) / double(1u << 30)),
                     [=](Setting& setting) { setting.scenario.control.switches.buffer_size = size; }});
  }
}

/// Experts divided otherwise, over the same ranks.
void add_expert_layouts(const scenario::Ranks& ranks, std::vector<Idea>& ideas) {
  const auto add = [&](reshard::Side side, const reshard::Parallelism& now, std::uint32_t ep) {
    if (ep == now.ep || ep == 0 || (now.tp * now.dp) % ep != 0) return;
    const bool trainer = side == reshard::Side::trainer;
    ideas.push_back({fmt::format("{} ep={}", trainer ? "train" : "gen", ep), [=](Setting& setting) {
                       reshard::Parallelism& sizes =
                           trainer ? setting.scenario.cluster->trainer : setting.scenario.cluster->generator;
                       sizes.ep = ep;
                       sizes.etp = 1;
                     }});
  };
  for (const auto& [side, now] :
       {std::pair{reshard::Side::trainer, &ranks.trainer}, {reshard::Side::generator, &ranks.generator}}) {
    add(side, *now, now->ep * 2);
    add(side, *now, now->ep / 2);
    add(side, *now, now->tp * now->dp);
  }
}

void add_machines(std::vector<Idea>& ideas) {
  for (const int times : {2, 4}) {
    ideas.push_back({fmt::format("{} network adapters for each GPU", times),
                     [=](Setting& setting) { setting.platform.network_bandwidth.value *= times; }});
  }
  ideas.push_back(
      {"a host twice as fast", [](Setting& setting) { setting.platform.host_cost.figure.value /= 2; }});
}

ProjectedArm arm_of(const Setting& setting, const model::Inventory& model) {
  return Projector(setting.scenario, model, setting.platform, setting.stack, std::nullopt,
                   Projector::Arms::control)
      .arm(true, setting.platform, setting.stack);
}

}  // namespace

WhatIf what_if(const scenario::Scenario& scenario, const model::Inventory& model, const Platform& platform,
               const Stack& stack, bool of_control) {
  Setting base{scenario, platform, stack};
  if (!base.scenario.cluster) base.scenario.cluster = base.scenario.ranks;
  if (!of_control) base.scenario.control = scenario.treatment;
  WhatIf result;
  result.base = arm_of(base, model);
  std::vector<Idea> ideas;
  add_switches(base.scenario.control.switches, ideas);
  if (base.scenario.cluster && base.scenario.cluster->processes() > 1) {
    add_expert_layouts(*base.scenario.cluster, ideas);
  }
  add_machines(ideas);
  if (stack.name != "refit") {
    ideas.push_back({"this project in place of the stack",
                     [own = find_stack("refit")](Setting& setting) { setting.stack = own; }});
  }
  for (const Idea& idea : ideas) {
    Setting changed = base;
    try {
      idea.apply(changed);
      result.candidates.push_back({idea.name, arm_of(changed, model).transfer.s});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::input) throw;
      result.refused.push_back(fmt::format("{}: {}", idea.name, error.what()));
    }
  }
  std::stable_sort(result.candidates.begin(), result.candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.transfer_s < b.transfer_s; });
  return result;
}

std::string to_json(const WhatIf& what_if, const scenario::Scenario& scenario, const Platform& platform,
                    const Stack& stack) {
  OrderedJson candidates = OrderedJson::array();
  for (const Candidate& each : what_if.candidates) {
    candidates.push_back({{"change", each.change},
                          {"projected_s", each.transfer_s},
                          {"saved_s", what_if.base.transfer.s - each.transfer_s}});
  }
  const OrderedJson json{{"schema", kWhatIfSchema},
                         {"scenario", scenario.name},
                         {"platform", platform.name},
                         {"stack", stack.name},
                         {"projected_s", what_if.base.transfer.s},
                         {"candidates", std::move(candidates)},
                         {"refused", what_if.refused}};
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

std::string to_text(const WhatIf& what_if, const scenario::Scenario& scenario, const Platform& platform,
                    const Stack& stack) {
  const double base = what_if.base.transfer.s;
  std::string text = fmt::format(
      "PROJECTED: {} on {} with {}\n  transfer_and_update_weights {:.4g} s, floor {:.3g} s; one change at a "
      "time:\n",
      scenario.name, platform.title, stack.title, base, what_if.base.floor_s);
  std::size_t shown = 0;
  for (const Candidate& each : what_if.candidates) {
    if (shown == kShown || each.transfer_s > 0.999 * base) break;
    text += fmt::format("  {}. {:<44} {:>9.4g} s  {:>+6.1f} %\n", ++shown, each.change, each.transfer_s,
                        (each.transfer_s / base - 1) * 100);
  }
  if (shown == 0) text += "  nothing of what was tried helps\n";
  for (const std::string& sentence : what_if.refused) text += fmt::format("  not tried: {}\n", sentence);
  return text;
}

}  // namespace refit::project
