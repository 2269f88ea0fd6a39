// Switches by name: one table of all of them, and the rules between them.
#include "refit/plan/switches.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "base/nearest.hpp"
#include "plan/names.hpp"
#include "refit/base/bytes.hpp"
#include "refit/base/error.hpp"

namespace refit::plan {
namespace {

/// Smaller buffers are typing errors: a bucket could not hold one row of any model.
constexpr std::uint64_t min_buffer_bytes = 4096;

enum class UsedBy : std::uint8_t { both, staged };

struct Switch {
  std::string_view name;
  UsedBy used_by;
  std::string (*get)(const Switches&);
  void (*set)(Switches&, std::string_view name, std::string_view value);
};

[[noreturn]] void fail_value(std::string_view name, const std::string& legal, std::string_view value) {
  fail_input(fmt::format("The switch {} takes {}, not {}.", name, legal, json_quoted(value)));
}

/// A switch whose values are the rows of a table in names.hpp.
template <auto member, const auto& table>
constexpr Switch named(std::string_view name, UsedBy used_by) {
  return {.name = name,
          .used_by = used_by,
          .get = [](const Switches& switches) { return std::string(names::of(table, switches.*member)); },
          .set =
              [](Switches& switches, std::string_view self, std::string_view text) {
                const auto value = names::parse(table, text);
                if (!value) fail_value(self, names::list(table), text);
                switches.*member = *value;
              }};
}

std::string get_buffer_size(const Switches& switches) {
  return fmt::format("{}", switches.buffer_size);
}

void set_buffer_size(Switches& switches, std::string_view name, std::string_view text) {
  const std::uint64_t bytes = parse_bytes(text, fmt::format("The switch {}", name));
  if (bytes < min_buffer_bytes) {
    fail_input(fmt::format("The switch {} takes at least {} bytes, not {} ({} bytes).", name,
                           min_buffer_bytes, json_quoted(text), bytes));
  }
  switches.buffer_size = bytes;
}

std::string get_rounding(const Switches& switches) {
  return std::string(quant::name_of(switches.rounding));
}

void set_rounding(Switches& switches, std::string_view name, std::string_view text) {
  const auto value = quant::parse_rounding(text);
  if (!value) {
    std::array<std::string_view, quant::kRoundings.size()> legal;
    std::transform(quant::kRoundings.begin(), quant::kRoundings.end(), legal.begin(),
                   [](quant::Rounding rounding) { return quant::name_of(rounding); });
    fail_value(name, fmt::format("one of {}", fmt::join(legal, ", ")), text);
  }
  switches.rounding = *value;
}

/// Every switch, in the order of the structure.
constexpr std::array all_switches{
    named<&Switches::pipeline, names::pipeline>("pipeline", UsedBy::both),
    named<&Switches::prequantize, names::on_off>("prequantize", UsedBy::both),
    named<&Switches::quantize, names::quantize>("quantize", UsedBy::staged),
    named<&Switches::metadata, names::metadata>("metadata", UsedBy::staged),
    named<&Switches::handle_encoding, names::handle_encoding>("handle_encoding", UsedBy::staged),
    named<&Switches::handles, names::handles>("handles", UsedBy::staged),
    named<&Switches::ipc_buffers, names::ipc_buffers>("ipc_buffers", UsedBy::staged),
    Switch{"buffer_size", UsedBy::staged, get_buffer_size, set_buffer_size},
    named<&Switches::double_buffer, names::on_off>("double_buffer", UsedBy::staged),
    named<&Switches::loader, names::loader>("loader", UsedBy::staged),
    named<&Switches::shuffle, names::shuffle>("shuffle", UsedBy::staged),
    named<&Switches::offload, names::offload>("offload", UsedBy::both),
    named<&Switches::reference_swap, names::reference_swap>("reference_swap", UsedBy::both),
    named<&Switches::router_bias, names::router_bias>("router_bias", UsedBy::both),
    named<&Switches::commit, names::commit>("commit", UsedBy::both),
    Switch{"rounding", UsedBy::both, get_rounding, set_rounding},
    named<&Switches::zero_scale, names::zero_scale>("zero_scale", UsedBy::both),
    named<&Switches::non_finite, names::non_finite>("non_finite", UsedBy::both),
};

const Switch& find_switch(std::string_view name) {
  const auto found = std::find_if(all_switches.begin(), all_switches.end(),
                                  [&](const Switch& candidate) { return candidate.name == name; });
  if (found != all_switches.end()) return *found;
  std::vector<std::string_view> names;
  for (const Switch& each : all_switches) names.push_back(each.name);
  const auto meant = nearest(name, names);
  fail_input(meant ? fmt::format("There is no switch {}; did you mean \"{}\"?", json_quoted(name), *meant)
                   : fmt::format("There is no switch {}; the switches are {}.", json_quoted(name),
                                 fmt::join(names, ", ")));
}

}  // namespace

Switches published_treatment() {
  Switches switches;
  switches.prequantize = true;
  switches.ipc_buffers = IpcBuffers::persistent;
  switches.offload = Offload::slim;
  switches.loader = Loader::cached;
  switches.reference_swap = ReferenceSwap::pinned;
  switches.shuffle = Shuffle::batched;
  return switches;
}

std::vector<std::pair<std::string, std::string>> to_pairs(const Switches& switches) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const Switch& each : all_switches) pairs.emplace_back(each.name, each.get(switches));
  return pairs;
}

void set_switch(Switches& switches, std::string_view name, std::string_view value) {
  find_switch(name).set(switches, name, value);
}

void set_switches(Switches& switches, std::string_view text) {
  if (text.empty()) return;
  Switches changed = switches;
  std::vector<std::string_view> seen;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view item = text.substr(begin, end - begin);
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
      fail_input(fmt::format("Switches are written name=value,name=value, and {} in {} has no equals sign.",
                             json_quoted(item), json_quoted(text)));
    }
    const std::string_view name = item.substr(0, equals);
    set_switch(changed, name, item.substr(equals + 1));
    if (std::find(seen.begin(), seen.end(), name) != seen.end()) {
      fail_input(fmt::format("The switch {} is set twice in {}.", name, json_quoted(text)));
    }
    seen.push_back(name);
    begin = end + 1;
  }
  switches = changed;
}

void check_compatible(const Switches& switches) {
  if (switches.pipeline == Pipeline::direct && !switches.prequantize) {
    fail_input(
        "pipeline=direct cannot run with prequantize=off, because the direct pipeline quantizes at the "
        "sender while it writes into the generator's memory; set prequantize=on or pipeline=staged.");
  }
}

std::vector<std::string> inapplicable(const Switches& switches) {
  std::vector<std::string> ignored;
  if (switches.pipeline == Pipeline::staged) return ignored;
  for (const Switch& each : all_switches) {
    if (each.used_by == UsedBy::staged) ignored.emplace_back(each.name);
  }
  return ignored;
}

}  // namespace refit::plan
