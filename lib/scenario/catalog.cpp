// Where scenarios are found by name.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <system_error>

#include "base/json.hpp"
#include "base/nearest.hpp"
#include "refit/base/error.hpp"
#include "refit/scenario/scenario.hpp"

namespace refit::scenario {
namespace {

namespace fs = std::filesystem;

/// Name to file; the first directory that has a name wins.
std::map<std::string, fs::path> catalog() {
  std::map<std::string, fs::path> files;
  for (const fs::path& directory : directories()) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(directory, ignored)) {
      if (entry.path().extension() == ".json") files.emplace(entry.path().stem().string(), entry.path());
    }
  }
  return files;
}

/// Both sides' where they are different ones. Made-up scenarios have a size, but no hardware that anybody
/// ran.
std::optional<std::uint64_t> published_gpus(const Scenario& scenario) {
  const auto &trainer = scenario.trainer.gpus, &generator = scenario.generator.gpus;
  if (scenario.platform.empty() || !trainer) return std::nullopt;
  const bool separate = scenario.cluster && !scenario.cluster->colocated;
  return *trainer + (separate ? generator.value_or(0) : 0);
}

Entry entry_of(const std::string& name, const fs::path& file) {
  const Scenario scenario = load_scenario(file);
  Entry entry{.name = name,
              .title = scenario.title,
              .source = scenario.source,
              .model = fs::path(scenario.config_place).parent_path().filename().string(),
              .file = file,
              .gpus = published_gpus(scenario),
              .ranks = {}};
  if (scenario.ranks) entry.ranks = scenario.ranks->processes();
  return entry;
}

}  // namespace

std::vector<fs::path> directories() {
  std::vector<fs::path> candidates;
  if (const char* chosen = std::getenv("REFIT_SCENARIO_DIR"); chosen != nullptr && *chosen != '\0') {
    candidates.emplace_back(chosen);
  }
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  candidates.push_back(program.parent_path().parent_path() / "share" / "refit" / "scenarios");
#ifdef REFIT_SCENARIO_SOURCE_DIR
  candidates.emplace_back(REFIT_SCENARIO_SOURCE_DIR);
#endif
  std::erase_if(candidates, [&](const fs::path& path) { return !fs::is_directory(path, ignored); });
  return candidates;
}

Scenario find_scenario(const std::string& name_or_file) {
  if (name_or_file.find('/') != name_or_file.npos || name_or_file.ends_with(".json")) {
    return load_scenario(name_or_file);
  }
  const auto files = catalog();
  if (const auto found = files.find(name_or_file); found != files.end()) return load_scenario(found->second);
  std::vector<std::string_view> names;
  for (const auto& [name, file] : files) names.push_back(name);
  const auto meant = nearest(name_or_file, names);
  if (meant) {
    fail_input(
        fmt::format("there is no scenario {}; did you mean \"{}\"?", json_quoted(name_or_file), *meant));
  }
  fail_input(fmt::format("there is no scenario {}; known: {}", json_quoted(name_or_file),
                         names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
}

std::vector<Entry> list_scenarios() {
  std::vector<Entry> entries;
  for (const auto& [name, file] : catalog()) {
    try {
      entries.push_back(entry_of(name, file));
    } catch (const Error& error) {
      Entry& broken = entries.emplace_back();
      broken.name = name;
      broken.title = fmt::format("cannot be read: {}", error.what());
      broken.file = file;
    }
  }
  return entries;
}

}  // namespace refit::scenario
