// Results to files, the table to whatever stream they leave free.
#include "output.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "common/cli.hpp"
#include "refit/base/error.hpp"
#include "refit/page/page.hpp"
#include "refit/report/bars.hpp"
#include "terminal.hpp"

namespace refit::apps {

std::unique_ptr<OutputFile> open_output(const BenchOptions& options, const char* option,
                                        const std::optional<std::string>& path) {
  if (!path) return nullptr;
  require_apart_from_checkpoints(option, *path, {options.refit.checkpoint, options.refit.model});
  std::vector<std::string> others;
  for (const auto* other : {&options.json, &options.trace, &options.csv, &options.report}) {
    if (other != &path && *other) others.push_back(**other);
  }
  require_apart(option, *path, others);
  if (*path == "-" && std::ranges::count(others, "-") > 0) {
    fail_input(fmt::format("{} -: only one result fits on standard output", option));
  }
  // What was read is not written over.
  std::vector<std::string> inputs{options.refit.scenario, options.refit.model, options.stack,
                                  options.platform.value_or("")};
  std::erase(inputs, "");
  require_apart(option, *path, inputs);
  return std::make_unique<OutputFile>(*path);
}

Output::Output(const BenchOptions& options) : quiet_(options.quiet) {
  for (const auto& [file, path] : {std::pair{&json_, &options.json},
                                   {&trace_, &options.trace},
                                   {&csv_, &options.csv},
                                   {&page_, &options.report}}) {
    file->file = open_output(options, file->option.c_str(), *path);
  }
}

bool Output::has_files() const {
  return json_.file != nullptr || trace_.file != nullptr || csv_.file != nullptr || page_.file != nullptr;
}

bool Output::is_on_stdout() const {
  return std::ranges::any_of(std::array{&json_, &trace_, &csv_, &page_}, [](const File* file) {
    return file->file != nullptr && file->file->is_stdout();
  });
}

std::string Output::to_page(const report::Report& report) {
  return page::to_html(report::to_json(report), "the result");
}

void Output::unfinished(const report::Report& report) {
  for (File* file : {&json_, &page_}) {
    if (file->file != nullptr) file->file->write(file->text(report));
  }
}

void Output::table(const report::Report& report) const {
  if (quiet_ && has_files()) return;
  // Bars are for eyes: in a pipe the table stays what programs have read so far.
  const std::string text = report::to_table(report) +
                           report::to_bars(report, bar_style(is_on_stdout() ? STDERR_FILENO : STDOUT_FILENO));
  if (is_on_stdout()) {
    write_stderr(text);
  } else {
    write_stdout(text);
  }
}

void Output::write(const report::Report& report) {
  for (File* file : {&json_, &trace_, &csv_, &page_}) {
    if (file->file != nullptr) file->file->write(file->text(report));
  }
  table(report);
}

}  // namespace refit::apps
