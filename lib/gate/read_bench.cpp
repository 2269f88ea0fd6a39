// refit-bench/1: both arms, of one rank or many.
#include <fmt/format.h>

#include <algorithm>

#include "gate/readers.hpp"

namespace refit::gate {
namespace {

constexpr std::string_view kBenchSchema = "refit-bench/1";

/// A value as one word, members of an object line by line; "-" for none.
std::string word(const std::optional<JsonNode>& node) {
  if (!node) return "-";
  if (node->json().is_string()) return node->text();
  if (!node->is_object()) return node->json().dump();
  std::string lines;
  for (const auto& [key, member] : node->members()) {
    lines += (lines.empty() ? "" : "\n") + key + "=" + word(member);
  }
  return lines;
}

std::optional<JsonNode> find(const JsonNode& root, const std::vector<std::string_view>& path) {
  std::optional<JsonNode> node = root;
  for (const std::string_view key : path) {
    if (node) node = node->find(key);
  }
  return node;
}

struct Field {
  std::string_view name;
  std::vector<std::vector<std::string_view>> paths;  ///< their values make the field's
};
/// docs/gate.md lists them for people.
const std::vector<Field>& fields() {
  static const std::vector<Field> list = {
      {"scenario", {{"scenario", "digest"}}},
      {"part",
       {{"replayed", "layers"}, {"replayed", "experts"}, {"replayed", "vocab_rows"}, {"replayed", "bytes"}}},
      {"recipe", {{"settings", "recipe"}, {"settings", "ignore"}}},
      {"moe-layout", {{"settings", "moe_layout"}}},
      {"control", {{"arms", "control", "switches"}}},
      {"treatment", {{"arms", "treatment", "switches"}}},
      {"host-traffic", {{"replayed", "host_traffic"}}},
      {"checkpoint", {{"settings", "checkpoint"}}},
      {"backend", {{"settings", "backend"}}},
      {"transport", {{"settings", "transport"}, {"ranks", "exchange"}}},
      {"threads", {{"settings", "threads"}}},
      {"ranks", {{"ranks", "count"}, {"ranks", "train"}, {"ranks", "gen"}, {"ranks", "colocated"}}},
      {"device", {{"device", "name"}}},
      {"driver", {{"device", "driver"}}},
      {"cuda", {{"device", "runtime"}}},
      {"cpu", {{"environment", "cpu_model"}, {"environment", "usable_cpus"}}},
      {"compiler", {{"environment", "compiler"}, {"environment", "build_type"}}},
      {"version", {{"environment", "version"}}},
  };
  return list;
}

/// Beside phases, all of an arm that is looked at.
void read_arm(const JsonNode& arm, const std::string& name, const Selection& selection, Run& run) {
  for (const auto& [phase_name, node] : arm.at("phases").members()) {
    const std::string source = node.at("source").text();
    const JsonNode samples = node.at("samples_s");
    // What was not run here is quoted, and has no samples.
    if (source != "measured" && source != "stand-in" && samples.elements().empty()) continue;
    Phase phase{.arm = name, .name = phase_name, .seconds = selected(samples, samples.numbers(), selection)};
    const auto x_floor = node.find("x_floor");
    if (x_floor && x_floor->number() > 0) phase.floor_s = node.at("median_s").number() / x_floor->number();
    run.phases.push_back(std::move(phase));
  }
  run.arms.push_back({name, arm.at("wire_bytes").count(), arm.at("peak_extra_bytes").count()});
}

void read_unattributed(const std::optional<JsonNode>& share, const std::string& where, Run& run) {
  if (share) {
    if (share->number() > 1) share->fail("is more than all of the time");
    run.unattributed.push_back({where, share->number()});
  } else {
    run.notes.push_back(where + ": time that belongs to no stage is not known");
  }
}

void read_verdict(const std::optional<JsonNode>& verdict, const std::string& where, Run& run) {
  if (!verdict) return;
  const auto checks = verdict->members();
  if (checks.empty()) verdict->fail("names no check");
  for (const auto& [check, result] : checks) {
    const std::uint64_t wrong = result.at("mismatches").count();
    if (wrong > 0)
      run.faults.push_back(fmt::format("{}: verification: {} mismatches of {}", where, wrong, check));
  }
}

void read_ranks(const JsonNode& ranks, Run& run) {
  std::size_t unverified = 0;
  for (const JsonNode& row : ranks.at("rows").elements()) {
    const std::uint64_t rank = row.at("rank").count();
    for (const char* arm : {"control", "treatment"}) {
      const JsonNode part = row.at(arm);
      const std::string where = fmt::format("{}, rank {}", arm, rank);
      read_unattributed(find(part, {"unattributed", "share"}), where, run);
      const auto verdict = part.find("verified");
      if (!verdict) ++unverified;
      read_verdict(verdict, where, run);
    }
  }
  if (unverified > 0) {
    run.notes.push_back(
        fmt::format("of arms on ranks {} verdict{} missing", unverified, unverified == 1 ? " is" : "s are"));
  }
}

}  // namespace

bool is_refit_bench(const JsonNode& root) {
  const auto schema = root.find("schema");
  return schema && schema->json().is_string() && schema->text() == kBenchSchema;
}

const std::vector<std::string_view>& fingerprint_fields() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> list;
    for (const Field& field : fields()) list.push_back(field.name);
    return list;
  }();
  return names;
}

void read_refit_bench(const JsonNode& root, const Selection& selection, Run& run) {
  for (const Field& field : fields()) {
    std::string value;
    for (const auto& path : field.paths) value += (value.empty() ? "" : " ") + word(find(root, path));
    run.fingerprint.emplace_back(field.name, value);
  }
  if (const auto name = find(root, {"scenario", "name"})) run.title = name->text();
  if (const auto environment = root.find("environment")) {
    if (const auto date = environment->find("date_utc")) run.date = date->text();
    if (const auto commit = environment->find("git_commit")) run.commit = commit->text();
  }
  const std::string status = root.at("status").text();
  if (status != "ok" && status != "mismatch") {
    const auto why = root.find(status == "refused" ? "refused" : "error");
    run.faults.push_back(fmt::format("its status is {}{}", status, why ? ": " + why->text() : ""));
    return;
  }
  const JsonNode arms = root.at("arms");
  const auto ranks = root.find("ranks");
  bool verified = true;
  for (const char* name : {"control", "treatment"}) {
    const JsonNode arm = arms.at(name);
    read_arm(arm, name, selection, run);
    read_verdict(arm.find("verify"), name, run);
    verified = verified && arm.find("verify") && arm.at("verified_refits").count() > 0;
    for (const char* role : {"trainer", "generator"}) {
      // With ranks one thread has both, and is the trainer's.
      if (ranks && role == std::string_view("generator")) continue;
      read_unattributed(find(arm, {"unattributed_s", role, "share"}), fmt::format("{}, {}", name, role), run);
    }
  }
  if (ranks) read_ranks(*ranks, run);
  if (status == "mismatch" && run.faults.empty()) run.faults.push_back("its status is mismatch");
  if (!verified) run.notes.push_back("of an arm no refit was verified (--verify off)");
}

}  // namespace refit::gate
