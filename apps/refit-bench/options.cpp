// The command line of refit-bench.
#include "options.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/cli.hpp"
#include "common/ranks_options.hpp"
#include "refit/base/error.hpp"

namespace refit::apps {
namespace {

constexpr unsigned kUsualWarmup = 2;
/// Of one control thread: 4 MB, and a trace that a browser still opens.
constexpr std::uint32_t kMostSpans = 100'000, kLeastSpans = 1000;

/// One number of steps is left to measure at least.
unsigned warmup_of(const BenchOptions& options) {
  return options.warmup.value_or(std::min(kUsualWarmup, options.steps - 1));
}

void add_output_option(CLI::App& app, const char* name, std::optional<std::string>& path,
                       const char* description) {
  app.add_option_function<std::string>(
         name, [&path](const std::string& text) { path = text; }, description)
      ->type_name("FILE|-");
}

/// What runs nothing has one result and no run.
void check_projection(const BenchOptions& options) {
  if (options.project_only && !options.platform) {
    fail_input("--project-only: say onto what with --platform");
  }
  if (!options.stack.empty() && !options.platform && !options.validate_projection) {
    fail_input("--stack is what a projection is made with; say onto what with --platform");
  }
  if (options.platform && *options.platform == "this" && options.dry_run) {
    fail_input("--platform this is what a bench measures on this machine, and --dry-run measures nothing");
  }
  if (!options.project_only && !options.validate_projection) return;
  const char* const option = options.project_only ? "--project-only" : "--validate-projection";
  for (const auto& [other, given] : {std::pair{"--trace", options.trace.has_value()},
                                     {"--csv", options.csv.has_value()},
                                     {"--report", options.report.has_value()},
                                     {"--sweep", !options.sweeps.empty()},
                                     {"--dry-run", options.dry_run}}) {
    if (given) fail_input(fmt::format("{} runs no bench; leave out {}", option, other));
  }
}

}  // namespace

void add_bench_options(CLI::App& app, BenchOptions& options) {
  app.set_version_flag("--version", version_line(app.get_name()));

  add_refit_options(app, options.refit);
  app.get_option("--transport")
      ->description(
          "How memory reaches the other process; between ranks mpi, tcp, nccl, peer, or one of the "
          "first three with -broadcast")
      ->type_name("auto|shm|cuda-ipc|..");
  add_ranks_options(app, options.refit.ranks);
  add_simulation_options(app, options.refit.ranks);
  app.add_flag("--list", options.list, "List the scenarios and end");

  app.add_option("--steps", options.steps, "Steps of each arm, with those to warm up")
      ->capture_default_str()
      ->check(CLI::Range(1u, 1'000'000u).description(""))
      ->type_name("N");
  app.add_option_function<unsigned>(
         "--warmup", [&](unsigned steps) { options.warmup = steps; },
         "First steps that are run and not counted [2, or one less than --steps]")
      ->type_name("N");
  add_seconds_option(app, "--time-budget", options.time_budget_s,
                     "Stop early after this, never with fewer than 5 measured steps [150]");
  app.add_option("--verify", options.verify, "Which refits to check byte by byte")
      ->capture_default_str()
      ->check(CLI::IsMember({"off", "first", "every"}).description(""))
      ->type_name("off|first|every");
  add_output_option(app, "--json", options.json,
                    "Write the report as JSON; - is standard output, and the table goes to stderr");
  add_output_option(app, "--trace", options.trace,
                    "Write the stages of each arm's last refit as trace events, which ui.perfetto.dev opens");
  add_output_option(app, "--csv", options.csv, "Write every sample as a line of its own");
  add_output_option(app, "--report", options.report, "Write a page for a browser, which needs no other file");
  app.add_option(
         "--sweep", options.sweeps,
         "A bench for each value in turn, of a treatment's switch, layers or threads; given again: for "
         "each combination")
      ->type_name("KEY=V1,V2,..")
      ->allow_extra_args(false);
  app.add_option_function<std::string>(
         "--platform", [&](const std::string& name) { options.platform = name; },
         "Project the scenario's cluster onto this hardware: h100, h200, b200, gb200, .. or a file; this: as "
         "measured here")
      ->type_name("NAME|FILE");
  app.add_option(
         "--stack", options.stack,
         "The software whose host costs are projected: nemo-rl, refit or a file [nemo-rl; on this refit]")
      ->type_name("NAME|FILE");
  app.add_flag("--project-only", options.project_only, "Run nothing: project onto --platform and end");
  app.add_flag("--validate-projection", options.validate_projection,
               "Project published tables, each left out of the fit, show how far off that is, and end");
  app.add_flag("!--no-host-traffic", options.host_traffic,
               "Leave out optimizer offload and reference swap around each refit");
  app.add_flag("--dry-run", options.dry_run, "Plan everything, allocate and run nothing");
  app.add_flag("--quiet", options.quiet, "No progress bar, and no table where a result goes to a file");

  app.footer(
      "Examples:\n"
      "  refit-bench --scenario qwen3-30b\n"
      "  refit-bench --scenario qwen3-30b --treatment pipeline=direct --json report.json --report "
      "report.html\n"
      "  refit-bench --scenario tiny-moe --control buffer_size=1MiB --steps 50 --verify every\n"
      "  refit-bench --scenario qwen3-30b --sweep buffer_size=64MiB,1GiB,4GiB --sweep threads=1,2 --json "
      "sweep.json\n"
      "  refit-bench --model ~/models/Qwen3-30B-A3B --dry-run --json -\n"
      "  refit-bench --scenario qwen3-30b --platform b200 --project-only\n"
      "Exit codes: 0 fine, 1 verification found a difference, 2 bad usage or input, 3 failed while running.");
}

void check(const BenchOptions& options) {
  if (warmup_of(options) >= options.steps) {
    fail_input(
        fmt::format("--warmup {} leaves none of --steps {} to measure", warmup_of(options), options.steps));
  }
  for (const auto& [option, path] : {std::pair{"--trace", &options.trace}, {"--csv", &options.csv}}) {
    if (*path && options.dry_run) fail_input(fmt::format("{} is of a run, and --dry-run is none", option));
  }
  check_projection(options);
}

std::uint32_t spans_to_keep(const BenchOptions& options, std::uint32_t ranks) {
  return options.trace ? std::max(kLeastSpans, kMostSpans / ranks) : 0;
}

void set_run(const BenchOptions& options, run::BenchSpec& spec) {
  if (!options.host_traffic) spec.host_traffic = {};
  spec.checkpoint = options.refit.checkpoint;
  spec.seed = options.refit.seed;
  spec.steps = options.steps;
  spec.warmup = warmup_of(options);
  spec.time_budget_s = options.time_budget_s;
  spec.timeout_s = options.refit.timeout_s;
  spec.keep_spans = spans_to_keep(options, 1);
  spec.verify = options.verify == "off"     ? run::VerifyWhen::off
                : options.verify == "every" ? run::VerifyWhen::every
                                            : run::VerifyWhen::first;
}

}  // namespace refit::apps
