// A point's line shows what is compared across points: both medians, the floor, whether the bytes are right.
#include "refit/report/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/json.hpp"
#include "refit/base/error.hpp"
#include "refit/base/printable.hpp"
#include "report/figures.hpp"
#include "report/text.hpp"

namespace refit::report {
namespace {

constexpr std::string_view kPhase = "prepare_for_generation/transfer_and_update_weights";

std::string verify_text(const Report& report) {
  if (report.status == Status::mismatch) return "DIFFERS";
  if (report.status != Status::ok) return name_of(report.status);
  return report.result->treatment.verified_refits > 0 ? "equal" : "not verified";
}

std::optional<double> median_in(const PhaseFigures& phase) {
  return phase.summary ? std::optional(phase.summary->median) : std::nullopt;
}

std::string figures_of(const Report& report) {
  PhaseFigures off, on;
  std::optional<double> change;
  if (report.result) {
    const Figures figures = derive(report);
    for (std::size_t i = 0; i < figures.control.phases.size(); ++i) {
      if (figures.control.phases[i].first != kPhase) continue;
      off = figures.control.phases[i].second;
      on = figures.treatment.phases[i].second;
      change = figures.comparison[i].second.change;
    }
  }
  return fmt::format("{:>10}{:>10}{:>10}{:>9}  {}", seconds(median_in(off)), seconds(median_in(on)),
                     percent(change, true), times(on.x_floor), verify_text(report));
}

OrderedJson settings_json(const scenario::SweepPoint& point) {
  OrderedJson json = OrderedJson::object();
  for (const auto& [key, value] : point) {
    const bool count = key == "layers" || key == "threads";
    json[key] = count ? OrderedJson(std::stoull(value)) : OrderedJson(value);
  }
  return json;
}

/// Text of JSON, each line but the first further in: a line feed within a string is written as \n.
std::string indented(std::string_view json, std::size_t by) {
  std::string text;
  for (const char c : json) {
    text += c;
    if (c == '\n') text.append(by, ' ');
  }
  return text;
}

}  // namespace

SweepReport::SweepReport(std::vector<scenario::SweepPoint> points) : points_(std::move(points)) {
  for (const scenario::SweepPoint& point : points_) {
    widths_.resize(point.size());
    for (std::size_t i = 0; i < point.size(); ++i) {
      widths_[i] = std::max({widths_[i], point[i].first.size(), point[i].second.size()});
    }
  }
}

std::string SweepReport::settings(const std::vector<std::string>& cells) const {
  std::string text;
  for (std::size_t i = 0; i < cells.size(); ++i) text += fmt::format("{:<{}}  ", cells[i], widths_[i]);
  return text;
}

std::string SweepReport::head() const {
  std::vector<std::string> names;
  for (const auto& setting : points_.at(0)) names.push_back(setting.first);
  return fmt::format("{} points; seconds of {}\n{}{:>10}{:>10}{:>10}{:>9}  verify\n", points_.size(), kPhase,
                     settings(names), "off s", "on s", "change", "x floor");
}

std::string SweepReport::add(const Report& report) {
  std::vector<std::string> values;
  for (const auto& setting : points_.at(results_.size())) values.push_back(setting.second);
  std::string result = report::to_json(report);
  while (!result.empty() && result.back() == '\n') result.pop_back();
  results_.push_back(std::move(result));
  const std::string why = report.message.empty() ? "" : wrapped("  " + printable(report.message), 2);
  return settings(values) + figures_of(report) + "\n" + why;
}

std::string SweepReport::to_json() const {
  std::string text = "{\n  \"schema\": \"refit-sweep/1\",\n  \"points\": [";
  for (std::size_t i = 0; i < results_.size(); ++i) {
    text += fmt::format("{}\n    {{\n      \"set\": {},\n      \"result\": {}\n    }}", i == 0 ? "" : ",",
                        settings_json(points_[i]).dump(), indented(results_[i], 6));
  }
  return text + "\n  ]\n}\n";
}

}  // namespace refit::report
