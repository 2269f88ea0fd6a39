// Aligned columns, names last because they are long.
#include <fmt/format.h>

#include "gate/text.hpp"
#include "refit/gate/render.hpp"

namespace refit::gate {
namespace {

std::string line(std::string_view verdict, const Row& row) {
  std::string text = fmt::format("{:<10} {:>9} {:>9} {:>9} {:>20} {:>7}  {}\n", verdict, row.before,
                                 row.after, row.change, row.interval, row.allowed, row.name);
  if (!row.reason.empty()) text += fmt::format("{:<10} {}\n", "", row.reason);
  return text;
}

Row head(const char* before, const char* name) {
  Row row;
  row.before = before;
  row.after = "candidate";
  row.interval = "95 % interval";
  row.name = name;
  return row;
}

}  // namespace

std::string to_table(const Report& report) {
  std::string text;
  if (!report.baseline.empty()) text += fmt::format("baseline:  {}\n", files(report.baseline));
  text += fmt::format("candidate: {}\n", files(report.candidate));
  if (!report.limits.empty()) text += fmt::format("limits:    {}\n", files({report.limits}));
  bool phases = false, limits = false;
  for (const Row& row : rows(report)) {
    bool& begun = row.limit ? limits : phases;
    if (!begun) {
      Row header = head(row.limit ? "limit" : "baseline", row.limit ? "limited" : "phase");
      if (!row.limit) {
        header.change = "change";
        header.allowed = "allowed";
      }
      text += "\n" + line("verdict", header);
    }
    begun = true;
    text += line(name_of(row.verdict), row);
  }
  text += "\n";
  for (const Remark& remark : remarks(report)) {
    text += fmt::format("{}: {}\n", label(remark.kind), remark.text);
  }
  return text + summary(report) + "\n";
}

}  // namespace refit::gate
