// Strict reading of the list of tables.
#include <fmt/format.h>

#include "project/files.hpp"
#include "refit/base/error.hpp"
#include "refit/base/printable.hpp"
#include "refit/project/validation.hpp"

namespace refit::project {
namespace {

Table read_table(const JsonNode& node) {
  node.require_known({"table", "platform", "scenarios", "offset_spread"});
  Table table;
  table.title = printable(node.at("table").text());
  table.platform = node.at("platform").text();
  const JsonNode scenarios = node.at("scenarios");
  for (const JsonNode& name : scenarios.elements()) {
    table.scenarios.push_back(scenario::find_scenario(name.text()));
  }
  if (table.scenarios.empty()) scenarios.fail("is empty");
  if (const auto spread = node.find("offset_spread")) {
    table.offset_spread = spread->number();
    if (table.offset_spread <= 0) spread->fail("has to be above 0");
  }
  return table;
}

Measured read_measured(const JsonNode& node) {
  node.require_known({"what", "platform", "scenario", "train", "gen", "switches", "transport", "median_s",
                      "source", "fitted"});
  Measured run;
  run.what = printable(node.at("what").text());
  run.platform = node.at("platform").text();
  run.source = printable(node.at("source").text());
  run.scenario = scenario::find_scenario(node.at("scenario").text());
  run.scenario.cluster.reset();
  if (const auto train = node.find("train")) {
    scenario::Ranks ranks;
    ranks.trainer = reshard::parse_parallelism(train->text(), reshard::Side::trainer);
    ranks.generator = reshard::parse_parallelism(node.at("gen").text(), reshard::Side::generator);
    run.scenario.cluster = ranks;
  }
  scenario::override_switches(run.scenario.control, node.at("switches").text());
  if (const auto transport = node.find("transport")) {
    const std::string name = transport->text();
    if (name != "peer" && name != "nccl") transport->fail("is neither peer nor nccl");
    run.peer = name == "peer";
  }
  run.median_s = node.at("median_s").number();
  if (run.median_s <= 0) node.at("median_s").fail("has to be above 0");
  if (const auto fitted = node.find("fitted")) run.fitted = fitted->flag();
  return run;
}

}  // namespace

Tables load_tables(const std::filesystem::path& file) {
  const Json root = read_json_file(file.string());
  const JsonNode node(root, file.string());
  node.require_known({"schema", "published", "measured"});
  if (node.at("schema").text() != kTablesSchema)
    node.at("schema").fail(fmt::format("is not {}", kTablesSchema));
  Tables tables;
  for (const JsonNode& table : node.at("published").elements()) tables.published.push_back(read_table(table));
  for (const JsonNode& run : node.at("measured").elements()) tables.measured.push_back(read_measured(run));
  if (tables.published.size() < 2)
    node.at("published").fail("has fewer than two tables: none can be left out");
  return tables;
}

Tables find_tables() {
  return load_tables(find_file("tables", "published", "list of published tables"));
}

}  // namespace refit::project
