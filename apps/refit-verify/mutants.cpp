// refit-verify mutants: plants every fault in a refit of its own and counts those that verification finds.
#include <fmt/format.h>

#include <optional>

#include "commands.hpp"
#include "common/backends.hpp"
#include "common/cli.hpp"
#include "common/generator_role.hpp"
#include "common/output_file.hpp"
#include "refit/audit/mutants.hpp"
#include "refit/base/error.hpp"
#include "refit/run/faults.hpp"
#include "verdict_text.hpp"

namespace refit::apps {
namespace {

constexpr const char* kDefaultScenario = "tiny-moe";

std::vector<verify::Check> parse_without(const std::vector<std::string>& names) {
  std::vector<verify::Check> checks;
  for (const std::string& name : names) {
    const auto check = verify::parse_check(name);
    if (!check)
      fail_input(fmt::format("--without: {} is not one of wire, quantizer, layout, coverage", name));
    checks.push_back(*check);
  }
  return checks;
}

/// The first thing that any check found, or nothing.
std::string first_finding(const verify::Verdict& verdict) {
  for (const verify::Check check : verify::kChecks) {
    const verify::Result& result = verdict[check];
    if (result.mismatches > 0) return describe(check, result.findings.front());
  }
  return {};
}

class MutantRun {
 public:
  MutantRun(const MutantsOptions& options, scenario::Scenario scenario)
      : options_(options), scenario_(std::move(scenario)), without_(parse_without(options.without)) {}

  struct Outcome {
    bool planted = false;  ///< the model and switches have what the fault needs
    std::string found;     ///< empty when verification sees nothing wrong
  };
  [[nodiscard]] Outcome run(const std::string& fault, std::string_view switches) const {
    scenario::Scenario scenario = scenario_;
    scenario.control = scenario.treatment;
    scenario::override_switches(scenario.control, switches);
    run::BenchSpec spec = one_verified_step(scenario, options_.refit);
    spec.fault = fault;
    spec.without = without_;
    const run::BenchResult result = run::run_bench(spec, make_backend);
    return {result.control.fault_acted, first_finding(result.control.verdict)};
  }

 private:
  const MutantsOptions& options_;
  scenario::Scenario scenario_;
  std::vector<verify::Check> without_;
};

int list_faults() {
  std::string text;
  for (const run::Fault& fault : run::all_faults()) {
    text += fmt::format("{:<26} {:<10} {}\n", fault.name, verify::name_of(fault.caught_by), fault.what);
  }
  write_stdout(text);
  return 0;
}

}  // namespace

CLI::App* add_mutants(CLI::App& app, MutantsOptions& options) {
  CLI::App* const command = app.add_subcommand(
      "mutants", "Plant faults one by one; every one has to be found (default scenario: tiny-moe)");
  add_refit_options(*command, options.refit);
  command
      ->add_option("--without", options.without, "Switch a check off; faults that only it finds then survive")
      ->type_name("wire|quantizer|layout|coverage");
  command->add_option("--json", options.json, "Write what became of each as JSON (- for standard output)")
      ->type_name("FILE|-");
  command->add_flag("--list", options.list, "List the faults, and the check that has to find each");
  return command;
}

int run_mutants(const MutantsOptions& asked) {
  if (asked.list) return list_faults();
  MutantsOptions options = asked;
  if (options.refit.scenario.empty() && options.refit.model.empty())
    options.refit.scenario = kDefaultScenario;
  choose_backend(options.refit, false);
  const scenario::Scenario scenario = chosen_scenario(options.refit);
  require_apart_from_checkpoints("--json", options.json, {options.refit.checkpoint, options.refit.model});
  std::optional<OutputFile> json;
  if (!options.json.empty()) json.emplace(options.json);
  const auto say = [&](const std::string& line) {
    json && json->is_stdout() ? write_stderr(line) : write_stdout(line);
  };
  const MutantRun mutants(options, scenario);

  const std::string clean = mutants.run("", "").found;
  if (!clean.empty()) {
    throw Error(ErrorKind::check, fmt::format("the refit without any fault does not verify: {}", clean));
  }
  std::size_t killed = 0, planted = 0;
  std::vector<audit::Mutant> all;
  for (const run::Fault& fault : run::all_faults()) {
    const MutantRun::Outcome outcome = mutants.run(std::string(fault.name), fault.switches);
    const bool found = !outcome.found.empty();
    planted += outcome.planted ? 1 : 0;
    killed += outcome.planted && found ? 1 : 0;
    const char* const word = !outcome.planted ? "no victim" : found ? "killed" : "SURVIVED";
    say(fmt::format("{:<9} {:<26} {}\n", word, fault.name,
                    outcome.planted && found ? outcome.found : std::string(fault.what)));
    all.push_back({std::string(fault.name), std::string(fault.what),
                   std::string(verify::name_of(fault.caught_by)), outcome.planted, outcome.found});
  }
  if (json) json->write(audit::to_json(scenario.name, all));
  say(fmt::format("killed {}/{}\n", killed, planted));
  return killed == planted && planted > 0 ? 0 : exit_code(ErrorKind::check);
}

}  // namespace refit::apps
