// refit-verify self: one verified refit of each arm, and of the direct pipeline where no arm is direct
// already.
#include <fmt/format.h>

#include "commands.hpp"
#include "common/backends.hpp"
#include "common/cli.hpp"
#include "common/generator_role.hpp"
#include "refit/base/digest.hpp"
#include "refit/base/error.hpp"
#include "refit/model/inventory.hpp"
#include "verdict_text.hpp"

namespace refit::apps {
namespace {

struct NamedArm {
  std::string name;
  scenario::Arm arm;
};

std::vector<NamedArm> arms_of(const scenario::Scenario& scenario) {
  std::vector<NamedArm> arms = {{"control", scenario.control}, {"treatment", scenario.treatment}};
  scenario::Arm direct = scenario.treatment;
  direct.switches.pipeline = plan::Pipeline::direct;
  direct.switches.prequantize = true;
  if (scenario.control.switches.pipeline != plan::Pipeline::direct &&
      scenario.treatment.switches.pipeline != plan::Pipeline::direct) {
    arms.push_back({"direct", direct});
  }
  return arms;
}

std::string words(const plan::Switches& switches) {
  std::string text;
  for (const auto& [name, value] : plan::to_pairs(switches)) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, value);
  }
  return text;
}

}  // namespace

run::BenchSpec one_verified_step(const scenario::Scenario& scenario, const RefitOptions& options) {
  const model::Inventory model = model::parse_inventory(scenario.config_json, scenario.config_place);
  run::BenchSpec spec = scenario::choose_replay(scenario, model, options.replay).spec;
  spec.control_alone = true;
  spec.steps = 1;
  spec.warmup = 0;
  spec.checkpoint = options.checkpoint;
  spec.seed = options.seed;
  spec.timeout_s = options.timeout_s;
  spec.verify = run::VerifyWhen::first;
  spec.measure_copy = false;
  spec.host_traffic = {};
  start_generators_as_this_program(spec);
  return spec;
}

CLI::App* add_self(CLI::App& app, SelfOptions& options) {
  CLI::App* const command =
      app.add_subcommand("self", "Run the refit of a scenario and check four equalities over every byte");
  add_refit_options(*command, options.refit);
  add_count_option(*command, "--max-report", options.max_report, 0u, "Tensors named for each failed check");
  return command;
}

int run_self(SelfOptions options) {
  choose_backend(options.refit, false);
  scenario::Scenario scenario = chosen_scenario(options.refit);
  const model::Inventory model = model::parse_inventory(scenario.config_json, scenario.config_place);
  write_stdout(scenario::choose_replay(scenario, model, options.refit.replay).sentence + "\n");
  bool passed = true;
  for (const NamedArm& arm : arms_of(scenario)) {
    scenario.control = scenario.treatment = arm.arm;
    const run::BenchResult result = run::run_bench(one_verified_step(scenario, options.refit), make_backend);
    write_stdout(fmt::format("{} ({})\n{}  parameters {} after step 1, checked in {:.3f} s\n", arm.name,
                             words(arm.arm.switches), describe(result.control.verdict, options.max_report),
                             digest_hex(result.control.parameters_digest), result.control.verify_seconds));
    passed = passed && result.control.verdict.passed();
  }
  write_stdout(passed ? "every byte equal\n" : "differences found\n");
  return passed ? 0 : exit_code(ErrorKind::check);
}

}  // namespace refit::apps
