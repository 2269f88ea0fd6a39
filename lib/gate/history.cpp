// A folder of results, put in order and told apart.
#include "refit/gate/history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <tuple>

#include "base/file.hpp"
#include "base/json.hpp"
#include "gate/text.hpp"
#include "refit/base/digest.hpp"
#include "refit/base/error.hpp"
#include "refit/base/printable.hpp"
#include "refit/time/statistics.hpp"

namespace refit::gate {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostFiles = 10'000;

std::vector<std::string> json_files(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> files;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error);
  if (error) fail_input(fmt::format("{}: cannot be read as a folder: {}", folder, error.message()));
  for (; at != fs::recursive_directory_iterator(); at.increment(error)) {
    if (error) fail_input(fmt::format("{}: cannot be read as a folder: {}", folder, error.message()));
    if (at->path().extension() != ".json" || !at->is_regular_file(error)) continue;
    files.push_back(at->path().string());
    if (files.size() > kMostFiles)
      fail_input(fmt::format("{}: holds more than {} .json files", folder, kMostFiles));
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// What a file is, whatever it is called: one that links name twice is one result.
std::pair<std::uintmax_t, std::uintmax_t> identity_of(const std::string& file) {
  const ReadableFile open(file);
  return {open.status().st_dev, open.status().st_ino};
}

/// Everything that has to agree, and in short what was measured.
std::string identity(const Run& run, const std::vector<std::string>& allow) {
  std::string text(name_of(run.source));
  for (const auto& [field, value] : run.fingerprint) {
    if (field == "version" || std::find(allow.begin(), allow.end(), field) != allow.end()) continue;
    text += "\n" + field + "=" + value;
  }
  return text;
}

std::string in_short(const Run& run) {
  std::string text = run.title.empty() ? std::string(name_of(run.source)) : run.title;
  for (const auto& [field, value] : run.fingerprint) {
    if ((field == "backend" || field == "device") && value != "-") text += ", " + value;
  }
  return text;
}

class Reader {
 public:
  Reader(const Selection& selection, const std::vector<std::string>& allow)
      : selection_(selection), allow_(allow) {}

  void read(const std::string& file) {
    try {
      if (const auto same = known_.emplace(identity_of(file), file); !same.second) {
        left_out_.push_back(fmt::format("{}: is the same file as {}", file, same.first->second));
        return;
      }
      Run run = read_run(file, selection_);
      files_.push_back(file);
      if (run.faults.empty()) {
        runs_.push_back(std::move(run));
      } else {
        left_out_.push_back(file + ": " + run.faults.front());
      }
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::input) throw;
      left_out_.emplace_back(error.what());
    }
  }

  History history(double least_share, std::optional<double> least_seconds, std::uint64_t seed) {
    History history;
    // Dates are written from the year to the second.
    std::stable_sort(runs_.begin(), runs_.end(), [](const Run& a, const Run& b) { return a.date < b.date; });
    struct Entry {
      SeriesOfRuns series;
      Source source{};
    };
    std::map<std::tuple<std::string, std::string, std::string>, Entry> all;
    for (const Run& run : runs_) {
      const std::string key = identity(run, allow_);
      for (const Phase& phase : run.phases) {
        Entry& entry = all[{key, phase.arm, phase.name}];
        entry.source = run.source;
        SeriesOfRuns& series = entry.series;
        series.what = in_short(run);
        series.arm = phase.arm;
        series.phase = phase.name;
        series.points.push_back({run.date, run.commit, run.file, summarize(phase.seconds).median});
      }
    }
    for (auto& [key, entry] : all) {
      SeriesOfRuns& series = entry.series;
      if (series.points.size() < 2) continue;
      std::vector<double> values;
      for (const SeriesOfRuns::Point& point : series.points) values.push_back(point.median);
      const Threshold least{least_share, least_seconds.value_or(usual_min_effect(entry.source))};
      series.changes =
          change_points(values, least, mix64(seed) + digest_text(series.arm + ": " + series.phase));
      history.series.push_back(std::move(series));
    }
    history.runs = runs_.size();
    history.files = std::move(files_);
    history.left_out = std::move(left_out_);
    return history;
  }

 private:
  const Selection& selection_;
  const std::vector<std::string>& allow_;
  std::map<std::pair<std::uintmax_t, std::uintmax_t>, std::string> known_;
  std::vector<Run> runs_;
  std::vector<std::string> files_, left_out_;
};

std::string change_line(const SeriesOfRuns& series, const ChangePoint& change_point) {
  const SeriesOfRuns::Point& point = series.points[change_point.first];
  std::string text =
      fmt::format("  {} {} -> {}", change_point.after > change_point.before ? "slower" : "faster",
                  duration(change_point.before), duration(change_point.after));
  if (change_point.before > 0) text += fmt::format(" ({})", change(change_point.after / change_point.before));
  text += fmt::format(" from {} on",
                      point.date.empty() ? point.file : fmt::format("{}, {}", point.date, point.file));
  if (!point.commit.empty()) text += fmt::format(" (commit {:.12})", point.commit);
  return printable(text + fmt::format("; p {:.3f}", change_point.p)) + "\n";
}

}  // namespace

History read_history(const std::string& folder, const Selection& selection,
                     const std::vector<std::string>& allow, double least_share,
                     std::optional<double> least_seconds, std::uint64_t seed) {
  Reader reader(selection, allow);
  for (const std::string& file : json_files(folder)) reader.read(file);
  History history = reader.history(least_share, least_seconds, seed);
  history.folder = folder;
  if (history.runs == 0) {
    fail_input(fmt::format(
        "{}: holds no result{}", folder,
        history.left_out.empty() ? "" : "; the first that was left out: " + history.left_out.front()));
  }
  return history;
}

std::string to_table(const History& history) {
  std::string text;
  std::size_t changes = 0;
  for (const SeriesOfRuns& series : history.series) {
    text += fmt::format("{} ({}), {} results:", title(series.arm, series.phase), printable(series.what),
                        series.points.size());
    text += series.changes.empty() ? " no change\n" : "\n";
    for (const ChangePoint& change : series.changes) text += change_line(series, change);
    changes += series.changes.size();
  }
  for (const std::string& why : history.left_out) text += fmt::format("left out: {}\n", printable(why));
  return text + fmt::format("{} results, {} series, {} change{}\n", history.runs, history.series.size(),
                            changes, changes == 1 ? "" : "s");
}

std::string to_json(const History& history) {
  OrderedJson series = OrderedJson::array();
  for (const SeriesOfRuns& one : history.series) {
    OrderedJson points = OrderedJson::array(), changes = OrderedJson::array();
    const auto known = [](const std::string& text) {
      return text.empty() ? OrderedJson(nullptr) : OrderedJson(text);
    };
    for (const SeriesOfRuns::Point& point : one.points) {
      points.push_back({{"date", known(point.date)},
                        {"commit", known(point.commit)},
                        {"file", point.file},
                        {"median_s", point.median}});
    }
    for (const ChangePoint& change : one.changes) {
      changes.push_back(
          {{"first", change.first},
           {"before_s", change.before},
           {"after_s", change.after},
           {"ratio", change.before > 0 ? OrderedJson(change.after / change.before) : OrderedJson(nullptr)},
           {"p", change.p}});
    }
    series.push_back({{"what", one.what},
                      {"arm", known(one.arm)},
                      {"phase", one.phase},
                      {"points", std::move(points)},
                      {"changes", std::move(changes)}});
  }
  const OrderedJson json = {{"schema", "refit-history/1"},
                            {"folder", history.folder},
                            {"results", history.runs},
                            {"series", std::move(series)},
                            {"left_out", history.left_out}};
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace refit::gate
