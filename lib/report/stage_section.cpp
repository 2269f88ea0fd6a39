// The stages of both processes; with columns for a GPU's own times where there are any.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <span>

#include "refit/base/bytes.hpp"
#include "report/rank_figures.hpp"
#include "report/sections.hpp"
#include "report/text.hpp"

namespace refit::report {
namespace {

// In the order in which the bytes flow; what is not known here comes last.
constexpr std::string_view kTrainerOrder[] = {"allocate", "gather",      "quantize", "pack", "prepare",
                                              "transfer", "synchronize", "publish",  "wait"};
constexpr std::string_view kRankOrder[] = {"pack",    "exchange", "load",       "quantize",
                                           "shuffle", "swizzle",  "synchronize"};
constexpr std::string_view kGeneratorOrder[] = {"wait",    "open",    "quantize",    "load",
                                                "shuffle", "swizzle", "synchronize", "commit"};

const StageFigures* find_stage(const ArmFigures& arm, run::Role role, const std::string& name) {
  for (const StageFigures& stage : arm.stages) {
    if (stage.samples->role == role && stage.samples->name == name) return &stage;
  }
  return nullptr;
}

std::vector<std::string> stage_names(const Figures& figures, run::Role role,
                                     std::span<const std::string_view> order) {
  std::vector<std::string> names;
  for (const ArmFigures* arm : {&figures.control, &figures.treatment}) {
    for (const StageFigures& stage : arm->stages) {
      const bool listed = std::find(names.begin(), names.end(), stage.samples->name) != names.end();
      if (stage.samples->role == role && !listed) names.push_back(stage.samples->name);
    }
  }
  std::stable_sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return std::find(order.begin(), order.end(), a) < std::find(order.begin(), order.end(), b);
  });
  return names;
}

/// The same stage of both arms; null where an arm has none.
struct Row {
  const StageFigures *off, *on;
};

struct Column {
  const char* head;
  std::size_t width;
  std::function<std::string(const Row&)> text;
};

using Cell = std::string (*)(const StageFigures&);

std::string cell(const StageFigures* stage, Cell text) {
  return stage == nullptr ? "-" : text(*stage);
}

Column column_off(const char* head, std::size_t width, Cell text) {
  return {head, width, [text](const Row& row) { return cell(row.off, text); }};
}

Column column_on(const char* head, std::size_t width, Cell text) {
  return {head, width, [text](const Row& row) { return cell(row.on, text); }};
}

Column column_both(const char* head, std::size_t width, Cell text) {
  return {head, width, [text](const Row& row) { return pair(cell(row.off, text), cell(row.on, text)); }};
}

std::string host_s(const StageFigures& stage) {
  return seconds(stage.summary.median);
}
std::string device_s(const StageFigures& stage) {
  return seconds(stage.samples->device_seconds);
}
std::string launches(const StageFigures& stage) {
  return fmt::format("{}", stage.samples->launches);
}
/// In at most 5 characters.
std::string short_launches(const StageFigures& stage) {
  const auto n = static_cast<double>(stage.samples->launches);
  return n < 100'000     ? launches(stage)
         : n < 9'999'500 ? fmt::format("{:.0f}k", n / 1e3)
                         : fmt::format("{:.0f}M", n / 1e6);
}
std::string bytes(const StageFigures& stage) {
  return stage.samples->bytes == 0 ? "-" : format_bytes(stage.samples->bytes);
}
std::string x_floor(const StageFigures& stage) {
  return times(stage.x_floor);
}

/// How wide the names are, and what stands beside them; 100 characters together.
struct Layout {
  std::size_t name_width;
  std::vector<Column> columns;
};

Layout layout_for(bool device_times) {
  if (!device_times) {
    return {
        22,
        {column_off("off s", 9, host_s), column_on("on s", 9, host_s), column_both("launches", 19, launches),
         column_both("bytes", 22, bytes), column_both("x floor", 14, x_floor)}};
  }
  return {14,
          {column_off("off s", 9, host_s), column_on("on s", 8, host_s), column_off("off gpu", 8, device_s),
           column_on("on gpu", 8, device_s), column_both("launches", 13, short_launches),
           column_both("bytes", 21, bytes), column_both("x floor", 13, x_floor)}};
}

template <typename Text>
std::string line(const Layout& layout, const std::string& name, Text text) {
  std::string out = fmt::format("{:<{}}", name, layout.name_width);
  const char* gap = "";
  for (const Column& column : layout.columns) {
    out += fmt::format("{}{:>{}}", gap, text(column), column.width);
    gap = " ";
  }
  return out + "\n";
}

const RoleFigures& role_of(const ArmFigures& arm, run::Role role) {
  return role == run::Role::trainer ? arm.trainer : arm.generator;
}

std::string unattributed_line(const Layout& layout, const Figures& figures, run::Role role) {
  const RoleFigures &off = role_of(figures.control, role), &on = role_of(figures.treatment, role);
  return fmt::format("{:<{}}{:>9} {:>{}}   {} of the wall time\n", "  unattributed", layout.name_width,
                     seconds(off.median), seconds(on.median), layout.columns[1].width,
                     pair(percent(off.share, false), percent(on.share, false)));
}

/// A control thread whose stages are shown.
struct Thread {
  std::string heading;
  run::Role role;
  std::span<const std::string_view> order;
};

std::string slowest(const ranks::Result& result, ranks::RankArm ranks::RankRow::*arm) {
  const RankArmFigures figures = derive(result, arm);
  return figures.straggler() == nullptr ? "-" : fmt::format("{}", figures.straggler()->row->rank);
}

std::vector<Thread> threads_of(const Report& report) {
  if (!report.ranks) {
    return {{run::name_of(run::Role::trainer), run::Role::trainer, kTrainerOrder},
            {run::name_of(run::Role::generator), run::Role::generator, kGeneratorOrder}};
  }
  if (report.ranks->simulated_rank) {
    return {{reporting_rank(report), run::Role::trainer, kRankOrder}};
  }
  return {{fmt::format("slowest rank: {} off, {} on", slowest(*report.ranks, &ranks::RankRow::control),
                       slowest(*report.ranks, &ranks::RankRow::treatment)),
           run::Role::trainer, kRankOrder}};
}

}  // namespace

std::string stage_section(const Report& report, const Figures& figures) {
  const Layout layout = layout_for(figures.device_times);
  std::string text = line(layout, "stage", [](const Column& column) { return column.head; });
  for (const Thread& thread : threads_of(report)) {
    const run::Role role = thread.role;
    text += thread.heading + "\n";
    for (const std::string& name : stage_names(figures, role, thread.order)) {
      const Row row{find_stage(figures.control, role, name), find_stage(figures.treatment, role, name)};
      text += line(layout, "  " + name, [&](const Column& column) { return column.text(row); });
    }
    text += unattributed_line(layout, figures, role);
  }
  return text;
}

}  // namespace refit::report
