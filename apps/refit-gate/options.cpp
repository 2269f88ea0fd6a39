// The command line of refit-gate.
#include "options.hpp"

#include <fmt/format.h>

#include "common/cli.hpp"
#include "refit/base/error.hpp"

namespace refit::apps {
namespace {

/// A name that is empty, as a variable that nobody set makes it, is not taken for an option that is not
/// there.
CLI::Option* add_name(CLI::App& app, const std::string& option, std::string& name,
                      const std::string& description) {
  return app.add_option_function<std::string>(
      option,
      [&name, option](const std::string& text) {
        if (text.empty()) fail_input(option + ": the name is empty");
        name = text;
      },
      description);
}

void add_selection(CLI::App& app, gate::Selection& selection) {
  CLI::Option* const warmup = app.add_option_function<std::string>(
      "--warmup", [&](const std::string& text) { gate::parse_warmup(text, selection); },
      "Samples at the beginning that do not count, or auto: those that stand out [2 steps of NeMo-RL, else "
      "none]");
  warmup->type_name("N|auto");
  app.add_option_function<std::string>(
         "--steps", [&](const std::string& text) { gate::parse_steps(text, selection); },
         "Only these samples; of NeMo-RL these steps")
      ->excludes(warmup)
      ->type_name("FIRST-LAST");
}

void add_allow(CLI::App& app, std::vector<std::string>& allow) {
  std::string fields;
  for (const std::string_view field : gate::fingerprint_fields()) {
    fields += (fields.empty() ? "" : ", ") + std::string(field);
  }
  app.add_option("--allow", allow, "What may differ between files: " + fields)
      ->type_name("FIELD,..")
      ->delimiter(',')
      ->allow_extra_args(false);
}

void add_min_effect(CLI::App& app, std::optional<double>& seconds) {
  app.add_option_function<std::string>(
         "--min-effect",
         [&](const std::string& text) { seconds = gate::parse_seconds(text, "--min-effect"); },
         "Less than this is no change whatever its share [0.1ms; 0 for Google Benchmark and nccl-tests]")
      ->type_name("TIME");
}

/// NAME=SHARE; a name may hold '=' itself.
void set_phase(const std::string& text, std::map<std::string, double>& of_phase) {
  const std::size_t equals = text.rfind('=');
  if (equals == text.npos || equals == 0) {
    fail_input(
        fmt::format("--phase: \"{}\" is not NAME=SHARE, such as prepare_for_generation/total=3%", text));
  }
  of_phase[text.substr(0, equals)] = gate::parse_share(text.substr(equals + 1), "--phase");
}

CLI::Option* add_share(CLI::App& app, const std::string& name, double& share,
                       const std::string& description) {
  return app
      .add_option_function<std::string>(
          name, [&share, name](const std::string& text) { share = gate::parse_share(text, name); },
          description)
      ->type_name("SHARE");
}

}  // namespace

void add_gate_options(CLI::App& app, GateOptions& options) {
  app.set_version_flag("--version", version_line(app.get_name()));
  app.add_option("files", options.files,
                 "Results: a baseline and a candidate; with --limits a candidate may do")
      ->type_name("BASELINE CANDIDATE");
  app.add_option("--baseline", options.baseline, "Several cold starts of the baseline")->type_name("FILE..");
  app.add_option("--candidate", options.candidate, "Several cold starts of the candidate")
      ->type_name("FILE..");
  add_name(app, "--limits", options.limits, "Limits for the candidate (docs/gate.md)")
      ->type_name("gate.json");
  add_name(app, "--mutants", options.mutants,
           "What refit-verify mutants --json wrote, for a limit of mutants")
      ->type_name("FILE");

  gate::Settings& settings = options.settings;
  add_share(app, "--max-regression", settings.max_regression, "How much slower a phase may be [5%]");
  app.add_option_function<std::vector<std::string>>(
         "--phase",
         [&](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) set_phase(text, settings.of_phase);
         },
         "The same for one phase; \"ARM: NAME\" for one arm's; may be given again")
      ->type_name("NAME=SHARE")
      ->allow_extra_args(false);
  add_min_effect(app, settings.min_effect_s);
  app.add_option("--only", settings.only, "Look at this phase alone; may be given again")
      ->type_name("NAME")
      ->allow_extra_args(false);
  add_name(app, "--arm", settings.arm, "Look at this arm alone [both]")->type_name("control|treatment");
  add_selection(app, options.selection);
  add_allow(app, settings.allow);
  add_share(app, "--max-unattributed", settings.max_unattributed, "Time that may belong to no stage [2%]");
  add_count_option<std::uint64_t>(app, "--seed", settings.seed, 0, "Of the bootstrap");

  add_name(app, "--markdown", options.markdown, "Write Markdown for a pull request or $GITHUB_STEP_SUMMARY")
      ->type_name("FILE|-");
  add_name(app, "--junit", options.junit, "Write JUnit XML")->type_name("FILE|-");
  add_name(app, "--json", options.json, "Write everything as JSON")->type_name("FILE|-");
  add_name(app, "--report", options.report, "Write the candidate's page for a browser (docs/report.md)")
      ->type_name("FILE|-");
  app.add_flag("--github", options.github, "Print annotations of GitHub Actions beside the table");
  app.add_flag("--quiet", options.quiet, "No table");
  app.footer(
      "Examples:\n"
      "  refit-gate results/main.json results/branch.json\n"
      "  refit-gate --max-regression 3% --phase prepare_for_generation/total=2% main.json branch.json\n"
      "  refit-gate --baseline main-*.json --candidate branch-*.json --markdown - >> $GITHUB_STEP_SUMMARY\n"
      "  refit-gate --limits gate.json branch.json\n"
      "  refit-gate --report branch.html branch.json\n"
      "  refit-gate history results/nightly\n\n"
      "Exit codes: 0 passed or improved, 1 regression, 2 bad usage, input or invalid results, 3 too noisy to "
      "say,\n"
      "4 results of different things, 5 failed while running.");
}

void sort_files(GateOptions& options) {
  std::vector<std::string>& files = options.files;
  if (!files.empty() && !options.baseline.empty() && !options.candidate.empty()) {
    fail_input(fmt::format("{}: is neither said to be the baseline's nor the candidate's", files.front()));
  }
  if (options.candidate.empty() && !options.baseline.empty()) {
    options.candidate = std::move(files);
  } else if (options.baseline.empty() && !options.candidate.empty()) {
    options.baseline = std::move(files);
  } else if (files.size() == 2) {
    options.baseline = {files[0]};
    options.candidate = {files[1]};
  } else if (files.size() == 1 && (!options.limits.empty() || !options.report.empty())) {
    options.candidate = std::move(files);
  } else if (!files.empty()) {
    fail_input(
        fmt::format("{} files were given: a baseline and a candidate are two (more with --baseline and "
                    "--candidate), and one takes --limits",
                    files.size()));
  }
  if (options.candidate.empty())
    fail_input("there is no candidate: give BASELINE CANDIDATE, or --limits and a candidate");
  if (!options.report.empty() && options.candidate.size() > 1) {
    fail_input(fmt::format("--report draws one candidate, not {}", options.candidate.size()));
  }
  if (options.baseline.empty() && options.limits.empty() && !draws_only(options)) {
    fail_input("there is nothing to compare the candidate with: give a baseline or --limits");
  }
}

bool draws_only(const GateOptions& options) {
  const bool verdict =
      !options.json.empty() || !options.junit.empty() || !options.markdown.empty() || options.github;
  return !options.report.empty() && options.baseline.empty() && options.limits.empty() && !verdict;
}

CLI::App* add_history(CLI::App& app, HistoryOptions& options) {
  CLI::App* const command =
      app.add_subcommand("history", "Find when results in a folder changed, and by how much");
  command->add_option("folder", options.folder, "Results, also in folders below")
      ->required()
      ->type_name("DIR");
  add_share(*command, "--least", options.least, "Changes smaller than this are none [5%]");
  add_min_effect(*command, options.min_effect_s);
  add_allow(*command, options.allow);
  add_selection(*command, options.selection);
  add_count_option<std::uint64_t>(*command, "--seed", options.seed, 0, "Of the permutation test");
  add_name(*command, "--json", options.json, "Write it as JSON")->type_name("FILE|-");
  return command;
}

}  // namespace refit::apps
