// The last measured refit of each arm in the trace event format
// (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU), which Perfetto and
// chrome://tracing open. Text, because a JSON value of every event would take hundreds of MiB.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "refit/report/report.hpp"

namespace refit::report {
namespace {

constexpr int kStages = 1, kGenerator = 2, kRounds = 3;  // threads of a process; rounds have several

std::string text(const std::string& value) {
  return OrderedJson(value).dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

/// Microseconds in whole nanoseconds: what touches in seconds touches, and what nests nests.
std::int64_t nanoseconds(double seconds) {
  return std::isfinite(seconds) ? std::llround(seconds * 1e9) : 0;
}
std::string microseconds(std::int64_t nanoseconds) {
  return fmt::format("{:.3f}", static_cast<double>(nanoseconds) / 1000);
}

class Trace {
 public:
  void process(int pid, const std::string& name) {
    meta("process_name", pid, 0, fmt::format("\"name\":{}", text(name)));
    meta("process_sort_index", pid, 0, fmt::format("\"sort_index\":{}", pid));
  }

  void thread(int pid, int tid, const std::string& name) {
    meta("thread_name", pid, tid, fmt::format("\"name\":{}", text(name)));
    meta("thread_sort_index", pid, tid, fmt::format("\"sort_index\":{}", tid));
  }

  void complete(int pid, int tid, const std::string& quoted_name, const char* category, double begin,
                double end, const std::string& arguments) {
    const std::int64_t from = nanoseconds(begin), to = std::max(from, nanoseconds(end));
    event(fmt::format(R"({{"name":{},"cat":"{}","ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}}}})",
                      quoted_name, category, pid, tid, microseconds(from), microseconds(to - from),
                      arguments));
  }

  void mark(int pid, int tid, const std::string& name, double at) {
    event(fmt::format(R"({{"name":{},"cat":"note","ph":"i","s":"t","pid":{},"tid":{},"ts":{},"args":{{}}}})",
                      text(name), pid, tid, microseconds(nanoseconds(at))));
  }

  /// The stages of one control thread, within the refit that they add up to.
  void stages(int pid, int tid, const Recording& recording, double offset) {
    complete(pid, tid, "\"refit\"", "refit", offset, offset + recording.wall,
             fmt::format("\"spans_left_out\":{}", recording.left_out));
    std::vector<std::string> names;
    for (const std::string& stage : recording.stages) names.push_back(text(stage));
    for (const Span& span : recording.spans) {
      complete(pid, tid, names.at(span.stage), "stage", offset + span.begin, offset + span.end,
               fmt::format("\"bytes\":{},\"launches\":{}", span.bytes, span.launches));
    }
    if (recording.left_out == 0) return;
    left_out_ += recording.left_out;
    mark(pid, tid, fmt::format("{} more stages were left out", recording.left_out),
         offset + (recording.spans.empty() ? 0 : recording.spans.back().end));
  }

  /// A track of its own beside the threads.
  void memory(int pid, const char* role, const std::vector<run::MemoryPoint>& points) {
    for (const run::MemoryPoint& point : points) {
      event(fmt::format(
          R"({{"name":"memory beside sources and parameters, {}","ph":"C","pid":{},"ts":{},"args":{{"bytes":{}}}}})",
          role, pid, microseconds(nanoseconds(point.seconds)), point.bytes));
    }
  }

  /// Events of one thread must not overlap unless they nest: a round that begins before another arrived gets
  /// a thread of its own.
  void rounds(int pid, const std::vector<ranks::RoundTimes>& rounds) {
    std::vector<double> busy_until;
    for (std::size_t r = 0; r < rounds.size(); ++r) {
      std::size_t lane = 0;
      while (lane < busy_until.size() && busy_until[lane] > rounds[r].start) ++lane;
      const int tid = kRounds + static_cast<int>(lane);
      if (lane == busy_until.size()) {
        busy_until.push_back(0);
        thread(pid, tid, lane == 0 ? "rounds under way" : "rounds under way beside them");
      }
      busy_until[lane] = rounds[r].arrived;
      complete(pid, tid, fmt::format("\"round {}\"", r), "exchange", rounds[r].start, rounds[r].arrived,
               fmt::format("\"round\":{}", r));
    }
  }

  /// The whole document.
  [[nodiscard]] std::string finish(const OrderedJson& other) && {
    return "{\"displayTimeUnit\":\"ms\",\"otherData\":" +
           other.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + ",\"traceEvents\":[\n" +
           std::move(events_) + "\n]}\n";
  }

  [[nodiscard]] std::uint64_t left_out() const noexcept { return left_out_; }

 private:
  void meta(const char* what, int pid, int tid, const std::string& arguments) {
    event(fmt::format(R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{{}}}}})", what, pid, tid,
                      arguments));
  }

  void event(const std::string& json) {
    if (!events_.empty()) events_ += ",\n";
    events_ += json;
  }

  std::string events_;
  std::uint64_t left_out_ = 0;
};

/// Both processes read the steady clock of one host.
void add_pair(Trace& trace, int pid, const char* arm, const run::ArmResult& result) {
  if (result.trainer.wall.empty()) return;
  const Recording &trainer = result.trainer.last, &generator = result.generator.last;
  trace.process(pid, arm);
  trace.thread(pid, kStages, name_of(run::Role::trainer));
  trace.thread(pid, kGenerator, name_of(run::Role::generator));
  trace.stages(pid, kStages, trainer, 0);
  trace.stages(pid, kGenerator, generator,
               std::chrono::duration<double>(generator.start - trainer.start).count());
  trace.memory(pid, name_of(run::Role::trainer), result.trainer.memory);
  trace.memory(pid, name_of(run::Role::generator), result.generator.memory);
}

void add_rank(Trace& trace, int pid, const char* arm, const ranks::RankRow& row,
              const ranks::RankArm& result) {
  if (result.seconds.empty()) return;
  trace.process(pid, fmt::format("{}: rank {} on {}", arm, row.rank, row.host));
  trace.thread(pid, kStages, "stages");
  trace.stages(pid, kStages, result.last, 0);
  trace.rounds(pid, result.rounds);
}

}  // namespace

std::string to_trace(const Report& report) {
  Trace trace;
  if (report.ranks) {
    int pid = 0;
    for (const ranks::RankRow& row : report.ranks->ranks) add_rank(trace, ++pid, "control", row, row.control);
    for (const ranks::RankRow& row : report.ranks->ranks)
      add_rank(trace, ++pid, "treatment", row, row.treatment);
  } else if (report.result) {
    add_pair(trace, 1, "control", report.result->control);
    add_pair(trace, 2, "treatment", report.result->treatment);
  }
  const std::uint64_t left_out = trace.left_out();
  return std::move(trace).finish(
      {{"program", "refit-bench " + report.environment.build.version},
       {"scenario", report.scenario.name},
       {"date_utc", report.environment.date_utc},
       {"shows", "the last measured refit of each arm; both begin at 0, though they ran one after the other"},
       {"clock", report.ranks
                     ? "each rank's own, from its own start: ranks start together at a barrier, and "
                       "clocks of several hosts are not compared"
                     : "the steady clock that trainer and generator share, from the trainer's start"},
       {"spans_left_out", left_out}});
}

}  // namespace refit::report
