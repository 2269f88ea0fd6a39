// The same for people.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "refit/ablation/report.hpp"
#include "refit/base/printable.hpp"

namespace refit::ablation {
namespace {

constexpr std::size_t kCell = 36;
/// Sums of doubles that cancel leave less than this.
constexpr double kNothing_s = 1e-12;

/// Without its sign where it is nothing.
double plain(double value, double nothing) {
  return std::fabs(value) < nothing ? 0 : value;
}

/// Value and interval; the value alone where there is none.
std::string cell(const std::optional<Estimate>& estimate) {
  if (!estimate) return fmt::format("{:>11}", "-");
  std::string text = fmt::format("{:>+11.4g}", plain(estimate->s, kNothing_s));
  if (estimate->ci95) text += fmt::format("  {:+.3g} .. {:+.3g}", estimate->ci95->low, estimate->ci95->high);
  return text;
}

/// Of the whole, where the whole is known to be something.
std::string share(const std::optional<Estimate>& part, const std::optional<Estimate>& whole) {
  if (!part || !whole || whole->s == 0) return "-";
  if (whole->ci95 && whole->ci95->low <= 0 && whole->ci95->high >= 0) return "-";
  return fmt::format("{:.1f} %", plain(part->s / whole->s * 100, 0.05));
}

void trim(std::string& text) {
  while (text.back() == ' ') text.pop_back();
  text += '\n';
}

struct Column {
  std::string_view head;
  std::optional<Estimate> Effect::*of;
};

/// The first is the method's own.
std::vector<Column> columns_of(Method method) {
  const Column alone{"alone", &Effect::alone}, last{"last", &Effect::last};
  if (method == Method::one_on) return {alone};
  if (method == Method::one_off) return {last};
  return {{"shapley", &Effect::shapley}, alone, last};
}

void add_phase(std::string& text, const Result& result, const Phase& phase) {
  const Attribution& found = phase.attribution;
  const std::vector<Column> columns = columns_of(result.method);
  std::size_t width = std::string_view("interaction").size();
  for (const Factor& factor : result.factors) width = std::max(width, factor.name.size());
  for (const Pair& pair : found.pairs) {
    width =
        std::max(width, result.factors[pair.first].name.size() + result.factors[pair.second].name.size() + 3);
  }
  text += fmt::format("  {}", phase.name);
  if (phase.control_s) text += fmt::format(", control {:.4g} s", *phase.control_s);
  text += fmt::format("\n    {:<{}} {:>9}", "", width, "of whole");
  for (const Column& column : columns) text += fmt::format(" {:>11}{:<{}}", column.head, "", kCell - 12);
  trim(text);
  const auto add_row = [&](std::string_view name, const std::string& of_whole,
                           const std::vector<std::string>& cells) {
    text += fmt::format("    {:<{}} {:>9}", name, width, of_whole);
    for (const std::string& each : cells) text += fmt::format(" {:<{}}", each, kCell - 1);
    trim(text);
  };
  for (std::size_t i = 0; i < result.factors.size(); ++i) {
    std::vector<std::string> cells;
    for (const Column& column : columns) cells.push_back(cell(found.effects[i].*column.of));
    add_row(result.factors[i].name, share(found.effects[i].*columns.front().of, found.whole), cells);
  }
  add_row("sum", share(found.sum, found.whole), {cell(found.sum)});
  add_row("whole", "", {cell(found.whole)});
  add_row("interaction", share(found.interaction, found.whole), {cell(found.interaction)});
  for (const Pair& pair : found.pairs) {
    add_row(fmt::format("{} x {}", result.factors[pair.first].name, result.factors[pair.second].name),
            share(pair.interaction, found.whole), {cell(pair.interaction)});
  }
}

void add_missing(std::string& text, const Result& result) {
  const std::vector<Subset>& missing = result.measured->phases.front().attribution.missing;
  if (missing.empty()) return;
  std::vector<std::string> labels;
  for (const Subset subset : missing) labels.push_back(label(result.factors, subset));
  text += fmt::format("  MISSING, and with it whatever rests on it: {}\n", fmt::join(labels, "; "));
}

}  // namespace

std::string to_text(const Result& result) {
  const std::string what = fmt::format("{} of {}", name_of(result.method), printable(result.scenario));
  std::string text;
  if (result.measured) {
    text += fmt::format("MEASURED: {}, seconds and 95 % intervals, negative is faster\n", what);
    add_missing(text, result);
    for (const Phase& phase : result.measured->phases) add_phase(text, result, phase);
  }
  if (result.projected) {
    text += fmt::format("PROJECTED, nothing of this ran: {} on {} with {}, seconds, negative is faster\n",
                        what, printable(result.projected->platform), printable(result.projected->stack));
    for (const Phase& phase : result.projected->phases) add_phase(text, result, phase);
    for (const std::string& sentence : result.projected->rests_on) {
      text += fmt::format("  rests on: {}\n", printable(sentence));
    }
    for (const std::string& sentence : result.projected->assumed) {
      text += fmt::format("  assumed: {}\n", printable(sentence));
    }
  }
  if (!result.left_out.empty()) {
    std::vector<std::string> names;
    for (const Setting& setting : result.left_out) names.push_back(setting.name);
    text += fmt::format("As in the control throughout: {}\n", fmt::join(names, ", "));
  }
  return text;
}

}  // namespace refit::ablation
