// Names and verdicts of a report.
#include "refit/report/report.hpp"

namespace refit::report {

const char* name_of(Status status) noexcept {
  switch (status) {
    case Status::ok:
      return "ok";
    case Status::mismatch:
      return "mismatch";
    case Status::failed:
      return "failed";
    case Status::refused:
      return "refused";
    case Status::dry_run:
      return "dry-run";
  }
  return "failed";
}

Status status_of(const run::BenchResult& result) noexcept {
  return result.control.verdict.passed() && result.treatment.verdict.passed() ? Status::ok : Status::mismatch;
}

}  // namespace refit::report
