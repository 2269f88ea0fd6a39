// Where the report of an audit goes: text for people, JSON, JUnit XML, and the exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "refit/audit/report.hpp"
#include "refit/base/thread_pool.hpp"

namespace refit::apps {

struct ReportOptions {
  std::size_t max_report = 10;
  std::string json, junit;
  unsigned threads = 1;
};
void add_report_options(CLI::App& command, ReportOptions& options);

/// Carries out the audit and writes its report; 0 when everything is equal, else 1. Whether the files can be
/// written is tried before; one that is an input too is Error(input).
[[nodiscard]] int report_audit(const ReportOptions& options, const std::vector<std::string>& inputs,
                               const std::function<audit::Report(ThreadPool&)>& audit);

}  // namespace refit::apps
