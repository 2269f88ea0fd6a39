// Limits and counts from files.
#include "refit/gate/limits.hpp"

#include "base/json_node.hpp"

namespace refit::gate {
namespace {

constexpr std::string_view kLimitsSchema = "refit-gate-limits/1";
constexpr std::string_view kMutantsSchema = "refit-mutants/1";

void require_schema(const JsonNode& root, std::string_view schema) {
  const JsonNode node = root.at("schema");
  if (node.text() != schema)
    node.fail("has to be \"" + std::string(schema) + "\", not " + json_shown(node.json()));
}

double above_zero(const JsonNode& node) {
  const double value = node.number();
  if (value <= 0) node.fail("has to be above 0, not " + json_shown(node.json()));
  return value;
}

std::string text_or_nothing(const JsonNode& node, std::string_view key) {
  const auto member = node.find(key);
  return member ? member->text() : "";
}

/// The entries of a list that may be absent, each with these keys alone.
std::vector<JsonNode> entries(const JsonNode& root, std::string_view key,
                              const std::vector<std::string_view>& known) {
  const auto list = root.find(key);
  if (!list) return {};
  std::vector<JsonNode> entries = list->elements();
  for (const JsonNode& entry : entries) entry.require_known(known);
  return entries;
}

std::vector<PhaseLimit> phase_limits(const JsonNode& root, std::string_view key, std::string_view most) {
  std::vector<PhaseLimit> limits;
  for (const JsonNode& entry : entries(root, key, {"arm", "phase", most})) {
    limits.push_back({text_or_nothing(entry, "arm"), entry.at("phase").text(), above_zero(entry.at(most))});
  }
  return limits;
}

std::vector<BytesLimit> bytes_limits(const JsonNode& root, std::string_view key) {
  std::vector<BytesLimit> limits;
  for (const JsonNode& entry : entries(root, key, {"arm", "max_bytes"})) {
    limits.push_back({entry.at("arm").text(), entry.at("max_bytes").count()});
  }
  return limits;
}

}  // namespace

Limits read_limits(const std::string& file) {
  const Json json = read_json_file(file);
  const JsonNode root(json, file);
  root.require_known(
      {"schema", "description", "x_floor", "seconds", "ratio", "peak_extra_bytes", "wire_bytes", "mutants"});
  require_schema(root, kLimitsSchema);
  Limits limits{.file = file,
                .x_floor = phase_limits(root, "x_floor", "max"),
                .seconds = phase_limits(root, "seconds", "max_s"),
                .peak_extra_bytes = bytes_limits(root, "peak_extra_bytes"),
                .wire_bytes = bytes_limits(root, "wire_bytes")};
  for (const JsonNode& entry : entries(root, "ratio", {"phase", "arm", "over", "max"})) {
    limits.ratio.push_back({entry.at("phase").text(), entry.at("arm").text(), entry.at("over").text(),
                            above_zero(entry.at("max"))});
  }
  if (const auto mutants = root.find("mutants")) {
    mutants->require_known({"all_killed", "min_killed"});
    const auto all = mutants->find("all_killed"), least = mutants->find("min_killed");
    limits.mutants = MutantsLimit{all && all->flag(), least ? least->count() : 0};
  }
  if (limits.x_floor.empty() && limits.seconds.empty() && limits.ratio.empty() &&
      limits.peak_extra_bytes.empty() && limits.wire_bytes.empty() && !limits.mutants) {
    root.fail("holds no limit");
  }
  return limits;
}

Mutants read_mutants(const std::string& file) {
  const Json json = read_json_file(file);
  const JsonNode root(json, file);
  require_schema(root, kMutantsSchema);
  Mutants mutants{file, root.at("killed").count(), root.at("planted").count()};
  if (mutants.killed > mutants.planted) root.at("killed").fail("is more than were planted");
  return mutants;
}

}  // namespace refit::gate
