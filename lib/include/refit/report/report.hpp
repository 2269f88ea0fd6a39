// What a bench says in the end: one value, written as JSON (schema refit-bench/1) or as a table for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "refit/model/inventory.hpp"
#include "refit/project/project.hpp"
#include "refit/ranks/ranks.hpp"
#include "refit/report/environment.hpp"
#include "refit/run/result.hpp"
#include "refit/scenario/replay.hpp"
#include "refit/scenario/scenario.hpp"

namespace refit::report {

enum class Status : std::uint8_t {
  ok,        ///< ran; nothing found wrong
  mismatch,  ///< ran; a verification found differences
  failed,    ///< began to run and did not end: `message` says why
  refused,   ///< cannot be run: `message` says why
  dry_run,   ///< nothing was run
};
[[nodiscard]] const char* name_of(Status status) noexcept;

/// Parts that are not known yet, because something failed before, are empty.
struct Report {
  Status status = Status::ok;
  std::string message;  ///< of a failure or refusal
  scenario::Scenario scenario;
  model::Inventory model;                  ///< the whole one
  std::optional<scenario::Replay> replay;  ///< none when refused
  std::optional<run::BenchResult> result;  ///< none unless it ran to the end
  /// Where the scenario has ranks: each one's part beside `result`, which is that of all; its own `bench` is
  /// not looked at.
  std::optional<ranks::Result> ranks;
  /// What a refit of the whole model would take elsewhere: never mixed with what was measured.
  std::optional<project::Projection> projection;
  Environment environment;
};

/// ok or mismatch, by the verdicts of both arms.
[[nodiscard]] Status status_of(const run::BenchResult& result) noexcept;

/// An indented JSON object, one line feed at the end. Unknown values are null; no number is ever infinite or
/// NaN.
[[nodiscard]] std::string to_json(const Report& report);

/// The last measured refit of each arm as trace events in JSON, which Perfetto opens: stages of every control
/// thread, and with ranks the rounds. Of spans that were kept, see BenchSpec::keep_spans.
[[nodiscard]] std::string to_trace(const Report& report);

/// Every sample of every phase and stage as a line of its own, RFC 4180 with a header line.
[[nodiscard]] std::string to_csv(const Report& report);

/// Plain text of at most 100 columns.
[[nodiscard]] std::string to_table(const Report& report);

}  // namespace refit::report
