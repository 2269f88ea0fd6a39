// What a bench writes beside its report: a trace, lines of samples, bars, and the points of a sweep.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "refit/base/error.hpp"
#include "refit/report/bars.hpp"
#include "refit/report/report.hpp"
#include "refit/report/sweep.hpp"
#include "refit/scenario/sweep.hpp"
#include "support/sample_report.hpp"

using namespace refit;
using namespace refit::report;
using namespace refit::test;

namespace {

Recording recording(double start_s) {
  Recording kept;
  kept.stages = {"pack", "wait \"\x1b\""};
  kept.spans = {{0, 0.001, 0.0025, 500, 7}, {1, 0.0025, 0.003, 0, 0}};
  kept.wall = 0.003;
  kept.start = Clock::time_point(
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1000 + start_s)));
  return kept;
}

Report with_recordings() {
  Report report = sample();
  for (run::ArmResult* arm : {&report.result->control, &report.result->treatment}) {
    arm->trainer.last = recording(0);
    arm->generator.last = recording(0.0005);
  }
  return report;
}

Report on_two_ranks() {
  Report report = with_recordings();
  scenario::Ranks& asked = report.scenario.ranks.emplace();
  asked.trainer = reshard::parse_parallelism("ep=2", reshard::Side::trainer);
  asked.generator = reshard::parse_parallelism("tp=2", reshard::Side::generator);
  ranks::Result& result = report.ranks.emplace();
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    ranks::RankArm arm;
    arm.seconds = {1, 2};
    arm.unattributed = {0, 0.5};
    arm.stages = {{"pack", run::Role::trainer, {0.25, 0.75}, 100, 2}};
    arm.last = recording(rank * 1e6);  // another host's clock
    // The second is under way before the first has arrived, the third after it.
    arm.rounds = {{0, 0.001, 0.003, 0.003}, {0, 0.002, 0.004, 0.004}, {0, 0.003, 0.005, 0.005}};
    result.ranks.push_back({rank, "node-" + std::to_string(rank), 600, 400, arm, arm});
  }
  return report;
}

Json trace_of(const Report& report) {
  return parse_json(to_trace(report), "trace");
}

std::vector<Json> events(const Json& trace, const std::string& phase, const std::string& category = "") {
  std::vector<Json> found;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") == phase && (category.empty() || event.at("cat") == category)) found.push_back(event);
  }
  return found;
}

/// What a call refuses as bad input.
template <typename Call>
std::string refusal(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    return error.what();
  }
  return "";
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) all.push_back(line);
  return all;
}

}  // namespace

TEST_CASE("a trace has a track for each arm and role, its stages within the refit, in microseconds") {
  const Json trace = trace_of(with_recordings());
  CHECK(trace.at("displayTimeUnit") == "ms");
  CHECK(trace.at("otherData").at("spans_left_out") == 0);
  std::vector<std::string> names;
  for (const Json& event : events(trace, "M")) {
    if (event.at("name") == "process_name" || event.at("name") == "thread_name") {
      names.push_back(event.at("args").at("name").get<std::string>());
    }
  }
  CHECK(names ==
        std::vector<std::string>{"control", "trainer", "generator", "treatment", "trainer", "generator"});
  const std::vector<Json> stages = events(trace, "X", "stage");
  REQUIRE(stages.size() == 8);
  CHECK(stages[0].at("name") == "pack");
  CHECK(stages[0].at("ts") == 1000);
  CHECK(stages[0].at("dur") == 1500);
  CHECK(stages[0].at("args").at("bytes") == 500);
  CHECK(stages[0].at("args").at("launches") == 7);
  CHECK(stages[1].at("name") == "wait \"\x1b\"");
  for (const Json& refit : events(trace, "X", "refit")) CHECK(refit.at("dur") == 3000);
}

TEST_CASE("a generator's stages begin as much later as its clock says") {
  const std::vector<Json> refits = events(trace_of(with_recordings()), "X", "refit");
  REQUIRE(refits.size() == 4);
  CHECK(refits[0].at("ts") == 0);
  CHECK(refits[1].at("ts") == 500);
}

TEST_CASE("a trace says how many spans were left out, on the track and for all") {
  Report report = with_recordings();
  report.result->treatment.generator.last.left_out = 41;
  const Json trace = trace_of(report);
  CHECK(trace.at("otherData").at("spans_left_out") == 41);
  const std::vector<Json> notes = events(trace, "i");
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].at("name") == "41 more stages were left out");
  CHECK(notes[0].at("tid") == 2);
  CHECK(notes[0].at("pid") == 2);
}

TEST_CASE("a trace of an arm that did not run has no track of it") {
  Report report = with_recordings();
  report.result->treatment = {};
  CHECK(events(trace_of(report), "X", "refit").size() == 2);
  report.result.reset();
  CHECK(trace_of(report).at("traceEvents").empty());
}

TEST_CASE("with ranks every rank begins at its own start, and rounds that overlap have tracks of their own") {
  const Json trace = trace_of(on_two_ranks());
  const std::vector<Json> refits = events(trace, "X", "refit");
  REQUIRE(refits.size() == 4);
  for (const Json& refit : refits) CHECK(refit.at("ts") == 0);
  const std::vector<Json> rounds = events(trace, "X", "exchange");
  REQUIRE(rounds.size() == 12);
  CHECK(rounds[0].at("tid") == 3);
  CHECK(rounds[1].at("tid") == 4);
  CHECK(rounds[2].at("tid") == 3);
  CHECK(rounds[1].at("ts") == 2000);
  CHECK(rounds[1].at("dur") == 2000);
  CHECK(contains(to_trace(on_two_ranks()), "treatment: rank 1 on node-1"));
}

TEST_CASE("a CSV has a header, CRLF, a line a sample, and nothing where nothing is known") {
  const std::string text = to_csv(sample());
  const std::vector<std::string> all = lines(text);
  CHECK(all.at(0) == "step,arm,rank,role,kind,name,seconds,bytes\r");
  // Three steps of two arms: four phases, four stages, two control threads with their unattributed rest.
  CHECK(all.size() == 1 + 3 * 2 * (4 + 4 + 2 + 2));
  for (const std::string& line : all) {
    CHECK(std::count(line.begin(), line.end(), ',') == 7);
    CHECK(line.back() == '\r');
  }
  CHECK(
      contains(text, "\r\n2,control,,,phase,prepare_for_generation/transfer_and_update_weights,4,1000\r\n"));
  CHECK(contains(text, "\r\n3,treatment,,trainer,stage,pack,1.5,500\r\n"));
  CHECK(contains(text, "\r\n1,control,,trainer,unattributed,refit,0.02,\r\n"));
  CHECK(contains(text, "\r\n1,control,,generator,wall,refit,2,\r\n"));
}

TEST_CASE("a CSV of ranks has each rank's stages, and phases of all of them") {
  const std::string text = to_csv(on_two_ranks());
  CHECK(contains(text, "\r\n2,treatment,1,,wall,refit,2,\r\n"));
  CHECK(contains(text, "\r\n1,control,0,,stage,pack,0.25,100\r\n"));
  CHECK(contains(text, "\r\n1,control,,,phase,prepare_for_generation/total,3,\r\n"));
  CHECK(text.find(",trainer,") == text.npos);
}

TEST_CASE("bars are as long as medians, plain where the terminal is, and fit it") {
  const std::string bars = to_bars(sample(), {80, false, false});
  const std::vector<std::string> all = lines(bars);
  // offload, transfer and total of both arms, each under its name, after an empty line.
  REQUIRE(all.size() == 10);
  const auto length = [&](std::size_t i) { return std::count(all[i].begin(), all[i].end(), '#'); };
  CHECK(contains(bars, "prepare_for_generation/total\n  off #"));
  std::ptrdiff_t longest = 0;
  for (std::size_t i = 0; i < all.size(); ++i) longest = std::max(longest, length(i));
  CHECK(longest == 50);
  for (const std::size_t i : {2, 5, 8}) {
    CAPTURE(all[i], all[i + 1]);
    CHECK(std::abs(length(i) - 2 * length(i + 1)) <= 1);  // the treatment takes half as long
    CHECK(contains(all[i + 1], "-50.0 %"));
  }
  CHECK(widest_line(bars) <= 80);
  CHECK(widest_line(to_bars(sample(), {500, false, false})) <= 100);
  CHECK(bars.find('\x1b') == bars.npos);
}

TEST_CASE("bars need room and results, colours and blocks are asked for") {
  CHECK(to_bars(sample(), {59, true, true}).empty());
  CHECK(to_bars(sample(), {}).empty());
  CHECK_FALSE(to_bars(sample(), {60, true, true}).empty());
  Report planned = sample();
  planned.result.reset();
  CHECK(to_bars(planned, {80, true, true}).empty());
  CHECK(contains(to_bars(sample(), {80, true, false}), "█"));
  CHECK(to_bars(sample(), {80, true, false}).find('\x1b') == std::string::npos);
  CHECK(contains(to_bars(sample(), {80, false, true}), "\x1b[0m"));
}

TEST_CASE("a sweep's axes are switches of an arm, layers and threads") {
  const scenario::SweepAxis axis = scenario::parse_sweep_axis("buffer_size=64MiB,1GiB");
  CHECK(axis.key == "buffer_size");
  CHECK(axis.values == std::vector<std::string>{"64MiB", "1GiB"});
  CHECK(scenario::parse_sweep_axis("threads=1").values.size() == 1);
  const auto refused = [](const std::string& text) {
    return refusal([&] { (void)scenario::parse_sweep_axis(text); });
  };
  CHECK(contains(refused("bufer_size=1GiB"), "did you mean \"buffer_size\"?"));
  CHECK(contains(refused("thread=1"), "did you mean \"threads\"?"));
  CHECK(contains(refused("zzzzzzzzzzzzzzz=1"), "there are pipeline, "));
  CHECK(contains(refused("shuffle=sideways"), "sideways"));
  for (const char* const text : {"threads=0", "threads=4097", "threads=1.5", "layers=-1", "layers=two",
                                 "layers=99999999999999999999"}) {
    CHECK(contains(refused(text), "whole numbers from 1"));
  }
  for (const char* const text : {"threads", "=1", ""}) CHECK(contains(refused(text), "KEY=VALUE"));
  for (const char* const text : {"threads=", "threads=1,", "threads=,1", "threads=1,,2"}) {
    CHECK(contains(refused(text), "empty value"));
  }
  CHECK(contains(refused("threads=2,1,2"), "\"2\" twice"));
}

TEST_CASE("a sweep is every combination, the last axis fastest, of at most 1000") {
  using scenario::SweepPoint;
  const auto points = scenario::sweep_points({{"shuffle", {"batched", "fused"}}, {"threads", {"1", "2"}}});
  REQUIRE(points.size() == 4);
  CHECK(points[0] == SweepPoint{{"shuffle", "batched"}, {"threads", "1"}});
  CHECK(points[1] == SweepPoint{{"shuffle", "batched"}, {"threads", "2"}});
  CHECK(points[3] == SweepPoint{{"shuffle", "fused"}, {"threads", "2"}});
  scenario::SweepAxis many{"layers", std::vector<std::string>(500, "1")};
  CHECK(scenario::sweep_points({many, {"threads", {"1", "2"}}}).size() == 1000);
  CHECK(contains(refusal([&] {
                   (void)scenario::sweep_points({many, {"threads", {"1", "2", "3"}}});
                 }),
                 "500 x 3 points"));
  CHECK(contains(refusal([&] {
                   (void)scenario::sweep_points({{"threads", {"1"}}, {"threads", {"2"}}});
                 }),
                 "swept twice"));
}

TEST_CASE("a sweep's document holds each point's report as it is, and its line what came of it") {
  SweepReport sweep({{{"buffer_size", "64MiB"}, {"threads", "1"}},
                     {{"buffer_size", "64MiB"}, {"threads", "2"}},
                     {{"buffer_size", "1GiB"}, {"threads", "1"}}});
  CHECK(contains(sweep.head(), "3 points"));
  CHECK(contains(sweep.head(), "buffer_size  threads"));
  const std::string good = sweep.add(sample());
  CHECK(contains(good, "64MiB        1        "));
  CHECK(contains(good, "-50.0 %"));
  CHECK(contains(good, "equal\n"));
  Report refused = sample();
  refused.result.reset();
  refused.replay.reset();
  refused.status = Status::refused;
  refused.message = "buffers do not fit\n\x1b[2J";
  const std::string bad = sweep.add(refused);
  CHECK(contains(bad, "refused\n"));
  CHECK(contains(bad, "buffers do not fit\\n"));
  CHECK(bad.find('\x1b') == bad.npos);
  Report wrong = sample();
  wrong.result->treatment.verdict[verify::Check::layout].mismatches = 1;
  wrong.status = status_of(*wrong.result);
  CHECK(contains(sweep.add(wrong), "DIFFERS\n"));

  const Json document = parse_json(sweep.to_json(), "sweep");
  CHECK(document.at("schema") == "refit-sweep/1");
  REQUIRE(document.at("points").size() == 3);
  CHECK(document.at("points")[0].at("set") == Json{{"buffer_size", "64MiB"}, {"threads", 1}});
  CHECK(document.at("points")[0].at("result") == json_of(sample()));
  CHECK(document.at("points")[1].at("result").at("refused") == refused.message);
}
