// Everything that may be absent in older results is looked up as such.
#include "page/result.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "refit/time/statistics.hpp"

namespace refit::page {
namespace {

constexpr const char* kSchema = "refit-bench/1";
constexpr double kMost = 1e12;
/// More members than any program names are none that could be drawn in any time.
constexpr std::size_t kMostMembers = 10'000;

// As the bytes flow; waiting last. Phases as a training step goes.
constexpr std::string_view kStages[] = {"allocate", "gather",   "quantize", "pack",        "prepare",
                                        "transfer", "exchange", "publish",  "open",        "load",
                                        "shuffle",  "swizzle",  "commit",   "synchronize", "wait"};
constexpr std::string_view kPhases[] = {
    kPrepare, kOffload,          kTransfer, "generation", "policy_and_reference_logprobs",
    kSwap,    "policy_training", kStep};

std::size_t place(std::span<const std::string_view> order, std::string_view name) {
  return static_cast<std::size_t>(std::find(order.begin(), order.end(), name) - order.begin());
}

std::vector<std::pair<std::string, JsonNode>> named(const JsonNode& node, std::size_t most,
                                                    const char* what) {
  auto members = node.members();
  if (members.size() > most)
    node.fail(fmt::format("has {} {}; at most {} are drawn", members.size(), what, most));
  return members;
}

/// Null stands for what was no finite number.
std::vector<double> read_samples(const JsonNode& node) {
  std::vector<double> samples;
  for (const JsonNode& element : node.elements()) {
    if (!element.json().is_null()) samples.push_back(read_number(element));
  }
  return samples;
}

std::optional<std::uint64_t> find_count(const JsonNode& node, const std::string& key) {
  const auto found = node.find(key);
  return found ? std::optional(found->count()) : std::nullopt;
}

std::vector<std::string> find_texts(const JsonNode& node, const std::string& key) {
  std::vector<std::string> texts;
  const auto found = node.find(key);
  if (!found) return texts;
  for (const JsonNode& element : found->elements()) texts.push_back(element.text());
  return texts;
}

std::string word(const JsonNode& node) {
  return node.json().is_string() ? node.text() : json_shown(node.json());
}

Phase read_phase(const std::string& key, const JsonNode& node) {
  return {.key = key,
          .source = node.at("source").text(),
          .samples = read_samples(node.at("samples_s")),
          .median = find_number(node, "median_s"),
          .spread = find_number(node, "spread"),
          .x_floor = find_number(node, "x_floor"),
          .extrapolated = find_number(node, "extrapolated_s"),
          .published = find_number(node, "published_s"),
          .published_source = text_or(node.find("published_source"), "")};
}

Stage read_stage(const std::string& key, const JsonNode& node) {
  constexpr std::string_view kShared = "generator.";
  return {.key = key,
          .name = key.starts_with(kShared) ? key.substr(kShared.size()) : key,
          .role = node.at("role").text(),
          .samples = read_samples(node.at("samples_s")),
          .median = find_number(node, "median_s").value_or(0),
          .device_s = find_number(node, "device_s"),
          .x_floor = find_number(node, "x_floor"),
          .bytes = node.at("bytes").count(),
          .launches = node.at("launches").count()};
}

void read_measured(const JsonNode& node, Arm& arm) {
  arm.measured = true;
  for (const auto& [key, stage] : named(node.at("stages"), kMostMembers, "stages"))
    arm.stages.push_back(read_stage(key, stage));
  std::stable_sort(arm.stages.begin(), arm.stages.end(), [](const Stage& a, const Stage& b) {
    return place_of_stage(a.name) < place_of_stage(b.name);
  });
  const JsonNode rest = node.at("unattributed_s");
  arm.trainer_rest = find_number(rest.at("trainer"), "median_s");
  arm.generator_rest = find_number(rest.at("generator"), "median_s");
  arm.warmup = read_samples(node.at("warmup_s"));
  arm.messages = node.at("messages").count();
  arm.message_bytes = node.at("message_bytes").count();
  arm.handles_opened = node.at("handles_opened").count();
  arm.peak_extra_bytes = node.at("peak_extra_bytes").count();
  arm.verified_refits = node.at("verified_refits").count();
  if (const auto timeline = node.find("memory_timeline")) {
    arm.memory = {read_memory_steps(timeline->at("trainer")), read_memory_steps(timeline->at("generator"))};
  }
  arm.verify_s = find_number(node, "verify_s");
  arm.verdict = read_verdict(node.find("verify"));
}

Arm read_arm(const JsonNode& node, bool ran) {
  Arm arm;
  for (const auto& [name, value] : node.at("switches").members())
    arm.switches.emplace_back(name, word(value));
  arm.inapplicable = find_texts(node, "inapplicable");
  arm.wire_bytes = node.at("wire_bytes").count();
  arm.buckets = node.at("buckets").count();
  for (const auto& [key, phase] : named(node.at("phases"), kMostMembers, "phases"))
    arm.phases.push_back(read_phase(key, phase));
  std::stable_sort(arm.phases.begin(), arm.phases.end(), [](const Phase& a, const Phase& b) {
    return place(kPhases, a.key) < place(kPhases, b.key);
  });
  if (ran) read_measured(node, arm);
  return arm;
}

void read_replayed(const JsonNode& node, Result& result) {
  result.replayed = node.at("description").text();
  result.fraction = find_number(node, "fraction").value_or(1);
  result.extrapolation = find_number(node, "extrapolation").value_or(1);
  result.memory_needed = find_count(node, "memory_needed_bytes");
  result.memory_budget = find_count(node, "memory_budget_bytes");
  const auto traffic = node.find("host_traffic");
  if (!traffic) return;
  const auto bytes = [&](const char* key) { return find_count(*traffic, key).value_or(0); };
  for (Arm& arm : result.arms) {
    for (Phase& phase : arm.phases) {
      phase.moved_nothing =
          (phase.key == kOffload && bytes("offload_full_bytes") == 0 && bytes("offload_slim_bytes") == 0) ||
          (phase.key == kSwap && bytes("reference_swap_bytes") == 0);
    }
  }
}

void read_comparison(const JsonNode& node, Result& result) {
  const auto transfer = node.find(kTransfer);
  if (!transfer || transfer->at("source").text() == "published") return;
  result.ratio = find_number(*transfer, "ratio");
  if (const auto interval = transfer->find("ci95")) {
    const std::vector<JsonNode> ends = interval->elements();
    if (ends.size() != 2) interval->fail("has to be two numbers");
    result.ci95 = {read_number(ends[0]), read_number(ends[1])};
  }
}

void check_kind(const JsonNode& root) {
  const JsonNode schema = root.at("schema");
  if (!schema.json().is_string() || schema.text() != kSchema) {
    schema.fail(std::string("has to be \"") + kSchema + "\", not " + json_shown(schema.json()));
  }
}

std::string read_status(const JsonNode& root) {
  constexpr std::string_view kKnown[] = {"ok", "mismatch", "failed", "refused", "dry-run"};
  const JsonNode status = root.at("status");
  std::string text = status.text();
  if (std::find(std::begin(kKnown), std::end(kKnown), text) == std::end(kKnown)) {
    status.fail("is none of ok, mismatch, failed, refused, dry-run: " + json_shown(status.json()));
  }
  return text;
}

void read_scenario(const JsonNode& scenario, Result& result) {
  result.name = scenario.at("name").text();
  result.title = text_or(scenario.find("title"), "");
  result.description = text_or(scenario.find("description"), "");
  result.digest = text_or(scenario.find("digest"), "");
  result.notes = find_texts(scenario, "notes");
}

}  // namespace

bool differs(const Verdict& verdict) {
  return verdict && std::any_of(verdict->begin(), verdict->end(),
                                [](const Check& check) { return check.mismatches > 0; });
}

const Phase* find_phase(const Arm& arm, const std::string& key) {
  const auto found = std::find_if(arm.phases.begin(), arm.phases.end(),
                                  [&](const Phase& phase) { return phase.key == key; });
  return found == arm.phases.end() ? nullptr : &*found;
}

std::optional<JsonNode> find(const JsonNode& root, const std::vector<std::string>& path) {
  std::optional<JsonNode> node = root;
  for (const std::string& key : path) {
    if (node) node = node->find(key);
  }
  return node;
}

std::string text_or(const std::optional<JsonNode>& node, const std::string& otherwise) {
  return node ? node->text() : otherwise;
}

double read_number(const JsonNode& node) {
  const double number = node.number();
  if (number > kMost) node.fail("is more than a result can hold: " + json_shown(node.json()));
  return number;
}

std::optional<double> find_number(const JsonNode& node, const std::string& key) {
  const auto found = node.find(key);
  return found ? std::optional(read_number(*found)) : std::nullopt;
}

std::size_t place_of_stage(const std::string& name) {
  return place(kStages, name);
}

Verdict read_verdict(const std::optional<JsonNode>& node) {
  if (!node) return std::nullopt;
  std::vector<Check> checks;
  const auto members = named(*node, 256, "checks");
  if (members.empty()) node->fail("names no check");
  for (const auto& [name, value] : members) {
    Check check{name, value.at("bytes").count(), value.at("mismatches").count(), {}};
    for (const JsonNode& finding : value.at("findings").elements()) {
      check.findings.push_back({finding.at("tensor").text(), word(finding.at("index")),
                                word(finding.at("expected")), word(finding.at("got")),
                                finding.at("what").text(), finding.at("count").count()});
    }
    checks.push_back(std::move(check));
  }
  return checks;
}

Result read_result(const JsonNode& root) {
  check_kind(root);
  Result result(root);
  result.status = read_status(root);
  result.message = text_or(root.find(result.status == "refused" ? "refused" : "error"), "");
  read_scenario(root.at("scenario"), result);
  const bool ran = result.status == "ok" || result.status == "mismatch";
  if (ran || root.find("arms")) {
    for (const char* name : kArms) result.arms.push_back(read_arm(root.at("arms").at(name), ran));
  }
  if (const auto replayed = root.find("replayed")) read_replayed(*replayed, result);
  if (const auto ranks = root.find("ranks"); ranks && ran) result.ranks = read_ranks(*ranks);
  if (const auto comparison = root.find("comparison"); comparison && ran)
    read_comparison(*comparison, result);
  result.on_gpu = root.find("device").has_value();
  return result;
}

}  // namespace refit::page
