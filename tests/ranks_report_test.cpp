// Reports of many ranks: every rank's part, the slowest one named, and nothing said of two processes.
#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "refit/reshard/parallelism.hpp"
#include "support/sample_report.hpp"

using namespace refit;
using namespace refit::report;
using namespace refit::test;
namespace fs = std::filesystem;

namespace {

/// Rank r is on node r / 2 and takes 1 + r seconds, the median of three, where nothing else is said; it keeps
/// 5 bytes and sends r + 1 to every other.
ranks::RankArm rank_arm(std::uint32_t rank, std::uint32_t count, double median) {
  ranks::RankArm arm;
  arm.seconds = {median, median / 2, median * 2};
  arm.unattributed = {0.25, 0, 0};
  arm.stages = {{"pack", run::Role::trainer, {0.5, 0.5, 0.5}, 100, 2},
                {"exchange", run::Role::trainer, {median / 2, 0.25, median}, 0, 0},
                {"load", run::Role::trainer, {0.25, 0.25, 0.25}, 50, 1}};
  arm.sent.assign(count, rank + 1);
  arm.sent[rank] = 5;
  for (std::uint32_t peer = 0; peer < count; ++peer) arm.received.push_back(peer == rank ? 5 : peer + 1);
  arm.peak_extra_bytes = 900;
  arm.most_extra_bytes = 1000;
  arm.floor_bytes = 250;
  arm.parameters_digest = 0xabc0 + rank;
  for (const verify::Check check : verify::kChecks) arm.verdict[check].bytes = 10;
  return arm;
}

Report on_many(std::uint32_t count) {
  Report report = sample();
  scenario::Ranks& asked = report.scenario.ranks.emplace();
  asked.trainer = reshard::parse_parallelism("ep=" + std::to_string(count), reshard::Side::trainer);
  asked.generator =
      reshard::parse_parallelism("tp=2,dp=" + std::to_string(count / 2), reshard::Side::generator);
  ranks::Result& result = report.ranks.emplace();
  result.trainer = asked.trainer;
  result.generator = asked.generator;
  result.exchange = "mpi";
  result.rounds_control = 7;
  result.rounds_treatment = 1;
  result.notes = {"key-value heads are replicated"};
  for (std::uint32_t r = 0; r < count; ++r) {
    result.ranks.push_back({r, "node-" + std::to_string(r / 2), 600, 400, rank_arm(r, count, 1 + r),
                            rank_arm(r, count, count - r)});
  }
  for (run::ArmResult* arm : {&report.result->control, &report.result->treatment}) {
    // As ranks::run_bench leaves them.
    arm->stages = result.ranks.front().control.stages;
    arm->trainer = {result.ranks.front().control.seconds, result.ranks.front().control.unattributed};
    arm->generator = {};
    arm->messages = 12;
    arm->message_bytes = arm->handles_opened = arm->handles_left = 0;
    arm->phases[kTransfer].floor_bytes = 250;
  }
  report.result->warmup_control = report.result->warmup_treatment = {};
  return report;
}

Report planned() {
  Report report = on_many(4);
  report.status = Status::dry_run;
  report.result.reset();
  report.ranks.reset();
  return report;
}

void plant_difference(Report& report, std::uint32_t rank) {
  verify::Verdict& verdict = report.ranks->ranks[rank].treatment.verdict;
  verdict[verify::Check::layout].add({"model.w13", 7, "0x7e", "0x00", 12, "differs from the reference"});
  verify::Verdict copy = verdict;
  report.result->treatment.verdict.merge(std::move(copy));
  report.status = status_of(*report.result);
}

/// In one line: where text is broken is no matter.
std::string flat(const std::string& text) {
  std::istringstream words(text);
  std::string line;
  for (std::string word; words >> word;) line += (line.empty() ? "" : " ") + word;
  return line;
}

std::string line_with(const std::string& text, const std::string& part) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(part) != line.npos) return line;
  }
  return "";
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("every rank has a row with its samples, its bytes by peer and its verdict") {
  const Json json = json_of(on_many(4))["ranks"];
  CHECK(json["count"] == 4);
  CHECK(json["train"] == "dp=4,ep=4");
  CHECK(json["gen"] == "tp=2,dp=2,etp=2");
  CHECK(json["colocated"] == true);
  CHECK(json["exchange"] == "mpi");
  CHECK(json["rounds"] == Json({{"control", 7}, {"treatment", 1}}));
  CHECK(json["notes"] == Json::array({"key-value heads are replicated"}));
  REQUIRE(json["rows"].size() == 4);
  const Json& row = json["rows"][2];
  CHECK(row["rank"] == 2);
  CHECK(row["host"] == "node-1");
  CHECK(row["source_bytes"] == 600);
  CHECK(row["destination_bytes"] == 400);
  const Json& arm = row["control"];
  CHECK(arm["seconds"] == Json({3, 1.5, 6}));
  CHECK(arm["median_s"] == 3);
  CHECK(arm["unattributed"]["seconds"] == Json({0.25, 0, 0}));
  CHECK(arm["unattributed"]["median_s"] == 0);
  CHECK(arm["unattributed"]["share"].get<double>() == Approx(0.25 / 10.5));
  REQUIRE(arm["stages"].size() == 3);
  CHECK(arm["stages"][0] == Json({{"name", "pack"},
                                  {"seconds", {0.5, 0.5, 0.5}},
                                  {"median_s", 0.5},
                                  {"bytes", 100},
                                  {"launches", 2}}));
  CHECK(arm["sent_bytes"] == Json({3, 3, 5, 3}));
  CHECK(arm["received_bytes"] == Json({1, 2, 5, 4}));
  CHECK(arm["peak_extra_bytes"] == 900);
  CHECK(arm["most_extra_bytes"] == 1000);
  CHECK(arm["floor_bytes"] == 250);
  CHECK(arm["parameters_digest"] == "000000000000abc2");
  CHECK(arm["verified"]["layout"]["bytes"] == 10);
  CHECK(arm["verified"]["layout"]["mismatches"] == 0);
  CHECK(row["treatment"]["median_s"] == 2);
}

TEST_CASE("the straggler is the rank whose median step takes longest, the first of several, in each arm") {
  Report report = on_many(4);
  CHECK(json_of(report)["ranks"]["straggler"] == Json({{"control", 3}, {"treatment", 0}}));
  for (ranks::RankRow& row : report.ranks->ranks) row.treatment.seconds = {1, 1, 1};
  report.ranks->ranks[2].treatment.seconds = {1, 9, 1};  // once slow is not slow
  CHECK(json_of(report)["ranks"]["straggler"]["treatment"] == 0);
  for (ranks::RankRow& row : report.ranks->ranks) row.treatment.seconds.clear();
  CHECK(json_of(report)["ranks"]["straggler"]["treatment"].is_null());
  CHECK(json_of(report)["ranks"]["rows"][0]["treatment"]["median_s"].is_null());
}

TEST_CASE("a rank without parameters has no digest, and one that was not verified no verdict") {
  Report report = on_many(4);
  report.ranks->ranks[1].control.parameters_digest = 0;
  report.result->treatment.verified_refits = 0;
  const Json rows = json_of(report)["ranks"]["rows"];
  CHECK(rows[1]["control"]["parameters_digest"].is_null());
  CHECK(rows[1]["control"]["verified"].is_object());
  CHECK(rows[1]["treatment"]["verified"].is_null());
}

TEST_CASE("a report of one rank has no ranks, and that of a scenario of many says how many it takes") {
  CHECK(json_of(sample())["ranks"].is_null());
  CHECK(json_of(sample())["scenario"]["ranks"].is_null());
  CHECK(to_table(sample()).find("rank") == std::string::npos);
  const Json json = json_of(planned());
  CHECK(json["ranks"].is_null());
  CHECK(json["scenario"]["ranks"] == Json({{"count", 4},
                                           {"simulated_rank", nullptr},
                                           {"train", "dp=4,ep=4"},
                                           {"gen", "tp=2,dp=2,etp=2"},
                                           {"colocated", true},
                                           {"trainer_form", "megatron"}}));
  CHECK(json["settings"]["transport"].is_null());
}

TEST_CASE("with ranks the direct floor is that of the rank with most to move, not of all ranks together") {
  const Json phase = json_of(on_many(4))["arms"]["control"]["phases"][kTransfer];
  CHECK(phase["floor_bytes"] == 250);
  CHECK(phase["x_floor"] == 12);  // 3 s for 250 bytes at 1000 bytes a second
  CHECK(phase["x_direct_floor"] == 12);
}

TEST_CASE("where links take longer than memory, they are the floor") {
  Report report = on_many(4);
  run::PhaseSamples& phase = report.result->control.phases[kTransfer];
  phase.link_bytes = 200;
  const auto shown = [&] { return json_of(report)["arms"]["control"]["phases"][kTransfer]; };
  CHECK(shown()["link_bytes"] == 200);
  CHECK(shown()["floor_s"] == 0.25);  // nobody knows how fast links are
  report.result->copy.peer = {400, 400, 400};
  CHECK(shown()["floor_s"] == 0.5);
  CHECK(shown()["x_floor"] == 6);  // 3 s
  CHECK(shown()["x_direct_floor"] == 6);
  report.result->copy.peer = {4000};
  CHECK(shown()["floor_s"] == 0.25);
  CHECK(shown()["x_floor"] == 12);
}

TEST_CASE("a rank's timeline says how much of the exchange was hidden behind work") {
  Report report = on_many(4);
  const auto timeline = [&] { return json_of(report)["ranks"]["rows"][3]["control"]["timeline"]; };
  CHECK(timeline() == Json({{"exchanging_s", nullptr}, {"hidden_s", nullptr}, {"rounds", Json::array()}}));
  // Under way from 1 to 3 and, the second beside the first and after it, to 5; packed the second from 1 to 2,
  // placed the first from 3 to 3.5 and the second when nothing was under way.
  report.ranks->ranks[3].control.rounds = {{0, 1, 3, 3.5}, {1, 2, 5, 6}};
  CHECK(timeline()["exchanging_s"] == 4);
  CHECK(timeline()["hidden_s"] == 1.5);
  CHECK(timeline()["rounds"][1] == Json({{"pack_s", 1}, {"start_s", 2}, {"arrived_s", 5}, {"placed_s", 6}}));
  CHECK(contains(flat(to_table(report)),
                 "of the 4.000 s in which its rounds were under way it packed and placed others for 38 %"));
}

TEST_CASE("one simulated rank is called that, in JSON and table, and passes for no more") {
  Report report = on_many(4);
  report.scenario.ranks->simulated = report.ranks->simulated_rank = 2;
  report.ranks->exchange = "simulated";
  report.ranks->ranks = {report.ranks->ranks[2]};
  const Json json = json_of(report);
  CHECK(json["scenario"]["ranks"]["simulated_rank"] == 2);
  CHECK(json["ranks"]["simulated_rank"] == 2);
  CHECK(json["ranks"]["count"] == 4);
  CHECK(json["ranks"]["rows"].size() == 1);
  const std::string table = to_table(report);
  CHECK(contains(flat(table), "on the same ranks. SIMULATED: only rank 2 ran."));
  CHECK(contains(table, "sent by rank 2"));
  CHECK(contains(table, "rank 2 alone copies"));
  for (const char* word : {"rank 0", "slowest", "all ranks together"}) {
    CAPTURE(table, word);
    CHECK(table.find(word) == table.npos);
  }
  CHECK(widest_line(table) <= 100);
}

TEST_CASE("what ranks do not look at is said, and no difference between the arms") {
  const Report report = on_many(4);
  const Json unused = json_of(report)["arms"]["control"]["inapplicable"];
  CHECK(std::find(unused.begin(), unused.end(), "ipc_buffers") != unused.end());
  CHECK(json_of(planned())["arms"]["control"]["inapplicable"] == unused);
  const std::string table = to_table(report);
  CHECK(contains(table, "off: ranks do not look at "));
  CHECK(flat(table).find("ipc_buffers per-refit -> persistent") == table.npos);
  CHECK(contains(table, "prequantize off -> on"));
  CHECK(contains(flat(to_table(sample())), "ipc_buffers per-refit -> persistent"));
}

TEST_CASE("the table has one line a rank and names the slowest") {
  const std::string table = to_table(on_many(4));
  CHECK(contains(
      table, "4 ranks: trainer dp=4,ep=4, generator tp=2,dp=2,etp=2, on the same ranks; bytes move by mpi."));
  CHECK(contains(flat(table), "A step takes as long as its slowest rank (>)."));
  CHECK(contains(table, "Note: key-value heads are replicated"));
  CHECK(contains(table, "off: 7 rounds; the slowest is rank 3 on node-1, 4.00 x the fastest."));
  CHECK(contains(table, "on: 1 round; the slowest is rank 0 on node-0, 4.00 x the fastest."));
  CHECK(line_with(table, " >    3 node-1") ==
        " >    3 node-1                    4.000        12 B         6 B  exchange 44.6 %       equal");
  CHECK(line_with(table, "     0 node-0") ==
        "      0 node-0                    1.000         3 B         9 B  exchange 50.0 %       equal");
  CHECK(count_of(table, " node-") == 8 + 2);
  CHECK(widest_line(table) <= 100);
}

TEST_CASE("with ranks the table says nothing of two processes, handles or buckets") {
  for (const Report& report : {on_many(4), planned()}) {
    const std::string table = to_table(report);
    for (const char* word : {"process", "handle_opened", "handles opened", "bucket", "on the wire",
                             "\ntrainer\n", "\ngenerator\n"}) {
      CAPTURE(table, word);
      CHECK(table.find(word) == table.npos);
    }
    CHECK(widest_line(table) <= 100);
  }
  const std::string table = to_table(on_many(4));
  CHECK(contains(table, "600 B between ranks in 4 rounds; 12 messages"));
  CHECK(contains(flat(table), "threads in each rank"));
  CHECK(contains(table, "rank 0 alone copies"));
  CHECK(contains(table, "slowest rank: 3 off, 0 on"));
  CHECK(contains(to_table(planned()), "memory of ranks that share it"));
  CHECK(contains(to_table(planned()), "rounds, off / on"));
}

TEST_CASE("more than 16 ranks are the slowest, the median and the fastest, and those that differ by number") {
  Report report = on_many(64);
  std::string table = to_table(report);
  CHECK(count_of(table, " node-") == 2 * 3 + 2);
  CHECK(contains(line_with(table, " >   63 node-31"), "64.00"));
  CHECK(contains(table,
                 "These are the slowest, the median and the fastest of 64 ranks; the others are equal."));
  CHECK(widest_line(table) <= 100);
  CHECK(json_of(report)["ranks"]["rows"].size() == 64);

  for (const std::uint32_t rank : {5, 6, 7, 8, 9, 10, 11, 12, 13}) plant_difference(report, rank);
  table = to_table(report);
  CHECK(report.status == Status::mismatch);
  CHECK(contains(flat(table), "of the others 9 DIFFER: 5, 6, 7, 8, 9, 10, 11, 12, .."));

  Report sixteen = on_many(16);
  plant_difference(sixteen, 9);
  table = to_table(sixteen);
  CHECK(count_of(table, " node-") == 2 * 16 + 2);
  CHECK(count_of(table, "DIFFERS\n") == 1);
  CHECK(table.find("These are") == table.npos);
}

TEST_CASE("on GPUs of many ranks the exchange is named in place of a transport, and the GPU is rank 0's") {
  Report report = on_many(4);
  report.result->backend =
      report.replay->spec.backend = {device::Kind::cuda, device::Transport::cuda_ipc, 2, 0};
  report.result->device.name = "NVIDIA H200";
  report.ranks->exchange = "nccl";
  const std::string table = to_table(report);
  CHECK(contains(table, "Backend cuda, transport nccl: rank 0's GPU 0, NVIDIA H200"));
  CHECK(table.find("cuda-ipc") == table.npos);
  CHECK(contains(table, "rank 0's GPU copies"));
}

TEST_CASE("long names and large numbers keep the lines of ranks within 100 columns") {
  Report report = on_many(4);
  for (ranks::RankRow& row : report.ranks->ranks) {
    row.host = std::string(200, 'h');
    row.rank += 65000;
    for (ranks::RankArm* arm : {&row.control, &row.treatment}) {
      arm->seconds = {123456.7, 123456.7, 123456.7};
      arm->sent[0] = arm->received[0] = 123'456'789'012'345;
    }
  }
  std::istringstream lines(to_table(report));
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" hhh") != line.npos && line.find(std::string(30, 'h')) == line.npos)
      CHECK(line.size() <= 100);
  }
}

TEST_CASE("reports of ranks are written for the schema check") {
  const char* directory = std::getenv("REFIT_REPORTS_DIR");
  if (directory == nullptr) return;
  fs::create_directories(directory);
  Report different = on_many(4);
  plant_difference(different, 1);
  Report unverified = on_many(4);
  unverified.result->control.verified_refits = 0;
  unverified.ranks->ranks[0].control.parameters_digest = 0;
  const std::pair<const char*, Report> reports[] = {{"ranks-ok", on_many(4)},
                                                    {"ranks-mismatch", different},
                                                    {"ranks-unverified", unverified},
                                                    {"ranks-dry-run", planned()}};
  for (const auto& [name, report] : reports) {
    std::ofstream file(fs::path(directory) / (std::string(name) + ".json"));
    file << to_json(report);
    CHECK(file.flush().good());
  }
}
