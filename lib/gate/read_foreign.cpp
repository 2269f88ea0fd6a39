// Results that others write: no arms, no fingerprint, and whatever verification they have.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "gate/readers.hpp"

namespace refit::gate {
namespace {

constexpr std::string_view kTiming = "timing/";
constexpr std::string_view kTrain = "timing/train/";
/// NeMo-RL writes rates among its timers.
constexpr std::string_view kRate = "per_sec";
/// Compiling, first allocations and graph captures are in the first two steps.
constexpr std::uint64_t kFirstStep = 3;

double seconds_in(const JsonNode& unit) {
  const std::string name = unit.text();
  if (name == "ns") return 1e-9;
  if (name == "us") return 1e-6;
  if (name == "ms") return 1e-3;
  if (name == "s") return 1;
  unit.fail(fmt::format("has to be ns, us, ms or s, not {}", json_shown(unit.json())));
}

std::optional<std::uint64_t> step_of(std::string_view key) {
  std::uint64_t step = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), step);
  return error == std::errc{} && end == key.data() + key.size() ? std::optional(step) : std::nullopt;
}

/// Numbers of a series by step, in the order of the steps.
struct Series {
  std::vector<std::uint64_t> steps;
  std::vector<double> seconds;
};
Series series_of(const JsonNode& node) {
  std::map<std::uint64_t, double> by_step;
  for (const auto& [key, value] : node.members()) {
    const auto step = step_of(key);
    if (!step) value.fail("does not stand under the number of a step");
    if (!by_step.emplace(*step, value.number()).second) value.fail("is a second value of the same step");
  }
  Series series;
  for (const auto& [step, seconds] : by_step) {
    series.steps.push_back(step);
    series.seconds.push_back(seconds);
  }
  return series;
}

/// One direction of a line of nccl-tests: single iterations where they were timed, else their mean. Whether
/// its elements were checked.
bool read_direction(const JsonNode& line, const std::string& direction, const Selection& selection,
                    Run& run) {
  const auto result = line.find(direction);
  if (!result) return true;
  const auto operation = line.find("redop");
  const std::string name = fmt::format("{} bytes {}{} {}", line.at("size").count(), line.at("type").text(),
                                       operation ? " " + operation->text() : "", direction);
  const auto wrong = result->find("nwrong");
  if (wrong && wrong->number() > 0) {
    run.faults.push_back(fmt::format("{}: {} wrong elements", name, wrong->number()));
  }
  std::vector<double> seconds;
  JsonNode place = *result;
  if (const auto each = line.find(direction + "_per_iter")) {
    place = each->at("times_us");
    seconds = place.numbers();
  } else {
    const auto cpu = result->find("cpu_time");
    place = cpu ? *cpu : result->at("time");
    seconds = {place.number()};
  }
  for (double& value : seconds) value *= 1e-6;
  run.phases.push_back({.arm = {}, .name = name, .seconds = selected(place, std::move(seconds), selection)});
  return wrong.has_value();
}

}  // namespace

bool is_google_benchmark(const JsonNode& root) {
  return root.find("context") && root.find("benchmarks");
}

void read_google_benchmark(const JsonNode& root, const Selection& selection, Run& run) {
  if (const auto date = root.at("context").find("date")) run.date = date->text();
  std::map<std::string, std::vector<double>> samples;
  std::vector<std::string> order;
  for (const JsonNode& benchmark : root.at("benchmarks").elements()) {
    const auto run_name = benchmark.find("run_name");
    const std::string name = run_name ? run_name->text() : benchmark.at("name").text();
    const auto failed = benchmark.find("error_occurred");
    if (failed && failed->flag()) {
      const auto why = benchmark.find("error_message");
      run.faults.push_back(fmt::format("{} failed{}", name, why ? ": " + why->text() : ""));
      continue;
    }
    const auto type = benchmark.find("run_type");
    if (type && type->text() != "iteration") continue;  // aggregates of the others
    if (!samples.contains(name)) order.push_back(name);
    samples[name].push_back(benchmark.at("real_time").number() * seconds_in(benchmark.at("time_unit")));
  }
  for (const std::string& name : order) {
    run.phases.push_back(
        {.arm = {}, .name = name, .seconds = selected(root.at("benchmarks"), samples[name], selection)});
  }
  if (order.empty() && run.faults.empty()) {
    root.at("benchmarks").fail("has no single repetitions: leave --benchmark_report_aggregates_only off");
  }
}

bool is_nccl_tests(const JsonNode& root) {
  return root.find("nccl_version") && root.find("results");
}

void read_nccl_tests(const JsonNode& root, const Selection& selection, Run& run) {
  if (const auto date = root.find("start_time")) run.date = date->text();
  std::size_t unchecked = 0;
  for (const JsonNode& line : root.at("results").elements()) {
    for (const char* direction : {"out_of_place", "in_place"}) {
      if (!read_direction(line, direction, selection, run)) ++unchecked;
    }
  }
  if (unchecked > 0) {
    run.notes.push_back(fmt::format("{} of {} measurements were not checked for wrong elements", unchecked,
                                    run.phases.size()));
  }
}

bool is_nemo_rl(const JsonNode& root) {
  if (!root.is_object()) return false;
  const auto members = root.members();
  return std::any_of(members.begin(), members.end(), [](const auto& member) {
    return member.first.starts_with(kTiming) && member.second.is_object();
  });
}

void read_nemo_rl(const JsonNode& root, const Selection& asked, Run& run) {
  Selection selection = asked;
  if (!selection.first) selection.first = kFirstStep;
  std::size_t rates = 0;
  for (const auto& [key, node] : root.members()) {
    if (!key.starts_with(kTiming)) continue;
    if (key.find(kRate) != key.npos) {
      ++rates;
      continue;
    }
    const std::string name = key.starts_with(kTrain) ? key.substr(kTrain.size()) : key;
    const Series series = series_of(node);
    run.phases.push_back(
        {.arm = {}, .name = name, .seconds = selected(node, series.seconds, selection, series.steps)});
  }
  if (!asked.first && !asked.by_rule) {
    run.notes.push_back(fmt::format("steps before {} are left out", kFirstStep));
  }
  if (rates > 0)
    run.notes.push_back(fmt::format("{} rates (..{}..) are no times and left out", rates, kRate));
}

}  // namespace refit::gate
