// refit-bench: measures a refit off against on, between two processes, and says where the time went.
#include <exception>
#include <optional>

#include "ablation.hpp"
#include "common/build_info.hpp"
#include "common/cli.hpp"
#include "common/generator_role.hpp"
#include "list.hpp"
#include "measure.hpp"
#include "on_ranks.hpp"
#include "options.hpp"
#include "output.hpp"
#include "projected.hpp"
#include "refit/base/error.hpp"
#include "refit/report/report.hpp"
#include "sweep.hpp"

namespace refit::apps {
namespace {

int bench(BenchOptions options, const AblationOptions& ablation, std::vector<std::string> argv) {
  check(options);
  if (ablation.method) return ablate(options, ablation, argv);
  if (options.validate_projection) return validate_projection(options);
  if (options.project_only) return project_only(options);
  if (!options.sweeps.empty()) return sweep(options, argv);
  report::Report report;
  report.environment = report::collect_environment(build_info(), std::move(argv));
  report.scenario = chosen_scenario(options.refit);
  const std::optional<scenario::Ranks>& ranks = report.scenario.ranks;
  if (options.platform && ranks && (!ranks->simulated || *options.platform == "this")) {
    fail_input("--platform beside a bench of ranks: project apart from it, with --project-only");
  }
  if (ranks && !ranks->simulated) return bench_on_ranks(std::move(options), std::move(report));
  const ProjectionBeside projection(options, report.scenario);
  prepare(options, report);
  Output output(options);
  try {
    measure(options, report);
    projection.fill_in(report);
  } catch (const std::exception&) {
    // What went wrong is in the JSON too, whole and valid, before it ends this program.
    if (!report.message.empty()) output.unfinished(report);
    if (report.status == report::Status::refused) output.table(report);
    throw;
  }
  output.write(report);
  return report.status == report::Status::mismatch ? exit_code(ErrorKind::check) : 0;
}

}  // namespace
}  // namespace refit::apps

int main(int argc, char** argv) {
  using namespace refit::apps;
  CLI::App app(
      "Measures moving a trainer's weights into a generation engine: off against on, every byte verified.",
      "refit-bench");
  BenchOptions options;
  bool generator = false;
  AblationOptions ablation;
  add_bench_options(app, options);
  add_ablation_options(app, ablation);
  add_generator_role(app, generator);
  return run_app(app, argc, argv, [&] {
    if (generator) return run_generator_role();
    if (options.list) return list_scenarios();
    return bench(options, ablation, {argv, argv + argc});
  });
}
