// Every sample as a line of its own, RFC 4180: what spreadsheets and data frames read.
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "refit/report/report.hpp"

namespace refit::report {
namespace {

/// A field that holds what separates fields is quoted.
std::string field(std::string_view value) {
  if (value.find_first_of(",\"\r\n") == value.npos) return std::string(value);
  std::string quoted = "\"";
  for (const char c : value) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

/// Who took the time of a line; empty where it is nobody's alone.
struct Who {
  std::string_view arm;
  std::string rank, role;
};

class Lines {
 public:
  /// A line for each sample. Fields without a value are empty; bytes are those of one step.
  void add(const Who& who, std::string_view kind, std::string_view name, const std::vector<double>& seconds,
           std::uint64_t bytes) {
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      text_ += fmt::format("{},{},{},{},{},{},{},{}\r\n", i + 1, who.arm, who.rank, who.role, kind,
                           field(name), std::isfinite(seconds[i]) ? fmt::format("{}", seconds[i]) : "",
                           bytes == 0 ? "" : fmt::format("{}", bytes));
    }
  }

  void add_thread(const Who& who, const std::vector<double>& wall, const std::vector<double>& unattributed) {
    add(who, "wall", "refit", wall, 0);
    add(who, "unattributed", "refit", unattributed, 0);
  }

  [[nodiscard]] std::string text() && { return std::move(text_); }

 private:
  std::string text_ = "step,arm,rank,role,kind,name,seconds,bytes\r\n";
};

void add_phases(Lines& lines, std::string_view arm, const run::ArmResult& result) {
  for (const auto& [key, phase] : result.phases) {
    lines.add({arm, "", ""}, "phase", key, phase.seconds, phase.floor_bytes);
  }
}

void add_pair(Lines& lines, std::string_view arm, const run::ArmResult& result) {
  lines.add_thread({arm, "", name_of(run::Role::trainer)}, result.trainer.wall, result.trainer.unattributed);
  lines.add_thread({arm, "", name_of(run::Role::generator)}, result.generator.wall,
                   result.generator.unattributed);
  for (const run::StageSamples& stage : result.stages) {
    lines.add({arm, "", name_of(stage.role)}, "stage", stage.name, stage.seconds, stage.bytes);
  }
}

void add_rank(Lines& lines, std::string_view arm, std::uint32_t rank, const ranks::RankArm& result) {
  const Who who{arm, fmt::format("{}", rank), ""};
  lines.add_thread(who, result.seconds, result.unattributed);
  for (const run::StageSamples& stage : result.stages) {
    lines.add(who, "stage", stage.name, stage.seconds, stage.bytes);
  }
}

}  // namespace

std::string to_csv(const Report& report) {
  Lines lines;
  if (report.result) {
    for (const bool control : {true, false}) {
      const run::ArmResult& result = control ? report.result->control : report.result->treatment;
      const std::string_view arm = control ? "control" : "treatment";
      add_phases(lines, arm, result);
      if (!report.ranks) {
        add_pair(lines, arm, result);
        continue;
      }
      for (const ranks::RankRow& row : report.ranks->ranks) {
        add_rank(lines, arm, row.rank, control ? row.control : row.treatment);
      }
    }
  }
  return std::move(lines).text();
}

}  // namespace refit::report
