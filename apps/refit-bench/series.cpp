// Each bench is one as if it had been asked for alone, with a generator of its own.
#include "series.hpp"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "common/build_info.hpp"
#include "common/cli.hpp"
#include "measure.hpp"
#include "output.hpp"
#include "refit/base/error.hpp"
#include "refit/page/page.hpp"

namespace refit::apps {
namespace {

int code_of(const std::exception& error) {
  const auto* const ours = dynamic_cast<const Error*>(&error);
  return exit_code(ours != nullptr ? ours->kind() : ErrorKind::runtime);
}

bool is_on_stdout(const std::unique_ptr<OutputFile>& file) {
  return file != nullptr && file->is_stdout();
}

}  // namespace

void check_series_files(const BenchOptions& options, const std::string& series, bool has_page) {
  const auto refuse = [&](const char* option) {
    fail_input(fmt::format("{} is of one bench; of {} there {}", option, series,
                           has_page ? "are --json and --report" : "is --json"));
  };
  if (options.trace) refuse("--trace");
  if (options.csv) refuse("--csv");
  if (options.report && !has_page) refuse("--report");
}

void check_series(BenchOptions options, const std::string& series, scenario::Scenario scenario) {
  if (scenario.ranks && !scenario.ranks->simulated) {
    fail_input(fmt::format(
        "{0} runs its benches one after the other in this process, and each of {1} ranks is started for one "
        "bench: call refit-bench for each --treatment KEY=VALUE, or take one rank of them with "
        "--simulate-ranks {1}",
        series, scenario.ranks->processes()));
  }
  report::Report report;
  report.scenario = std::move(scenario);
  prepare(options, report);
}

int run_in_series(BenchOptions options, const std::function<scenario::Scenario()>& scenario,
                  const std::vector<std::string>& argv, report::Report& report) {
  report.environment = report::collect_environment(build_info(), argv);
  try {
    report.scenario = scenario();
    prepare(options, report);
    measure(options, report);
  } catch (const std::exception& error) {
    if (report.message.empty()) {
      report.status = report::Status::refused;
      report.message = error.what();
    }
    return code_of(error);
  }
  return report.status == report::Status::mismatch ? exit_code(ErrorKind::check) : 0;
}

SeriesOutput::SeriesOutput(const BenchOptions& options)
    : quiet_(options.quiet),
      json_(open_output(options, "--json", options.json)),
      page_(open_output(options, "--report", options.report)) {}

void SeriesOutput::say(const std::string& text) const {
  if (quiet_ && (json_ != nullptr || page_ != nullptr)) return;
  if (is_on_stdout(json_) || is_on_stdout(page_)) {
    write_stderr(text);
  } else {
    write_stdout(text);
  }
}

void SeriesOutput::write(const std::string& json, const std::string& what) {
  if (json_ != nullptr) json_->write(json);
  if (page_ != nullptr) page_->write(page::to_html(json, what));
}

}  // namespace refit::apps
