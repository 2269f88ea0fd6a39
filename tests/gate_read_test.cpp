// Result files of four programs, and everything that is wrong with files.
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "refit/gate/gate.hpp"
#include "refit/gate/limits.hpp"
#include "refit/gate/measurement.hpp"
#include "support/catch.hpp"
#include "support/error_of.hpp"
#include "support/file_bytes.hpp"
#include "support/foreign_results.hpp"
#include "support/temp_dir.hpp"

using namespace refit;
using gate::Run;
using gate::Selection;
using Json = nlohmann::json;

namespace {

const std::string kResults = std::string(REFIT_TESTS_DIR) + "/../results/";
const std::string kPublished = kResults + "2026-11-30-h200-qwen3-30b/published.json";
const std::string kRanks = kResults + "2026-11-30-2xh200-qwen3-30b/tp2-peer.json";
constexpr const char* kTransfer = "prepare_for_generation/transfer_and_update_weights";

const gate::Phase& phase(const Run& run, const std::string& arm, const std::string& name) {
  const auto found = std::find_if(run.phases.begin(), run.phases.end(),
                                  [&](const gate::Phase& p) { return p.arm == arm && p.name == name; });
  REQUIRE(found != run.phases.end());
  return *found;
}

std::string field(const Run& run, const std::string& name) {
  for (const auto& [key, value] : run.fingerprint) {
    if (key == name) return value;
  }
  FAIL(name);
  return "";
}

}  // namespace

TEST_CASE("a result of refit-bench is read with both arms, their floors, bytes and fingerprint") {
  const Run run = gate::read_run(kPublished, {});
  CHECK(run.source == gate::Source::refit_bench);
  CHECK(run.faults.empty());
  CHECK(run.date == "2026-11-30T19:45:49Z");
  CHECK(run.arms.size() == 2);
  CHECK(run.arms[0].name == "control");
  CHECK(run.arms[0].wire_bytes == 61064245248);
  CHECK(run.arms[0].peak_extra_bytes == 5225344724);
  const gate::Phase& control = phase(run, "control", kTransfer);
  CHECK(control.seconds.size() == 20);
  CHECK(control.seconds[0] == 0.625673534);
  CHECK(*control.floor_s == Approx(0.5027269285 / 22.85205813398073));
  CHECK(phase(run, "treatment", kTransfer).seconds.size() == 20);
  CHECK(field(run, "scenario") == "bf7db6d560f1abab");
  CHECK(field(run, "backend") == "cuda");
  CHECK(field(run, "device") == "NVIDIA H200");
  // What was quoted and not run is no phase.
  CHECK(std::none_of(run.phases.begin(), run.phases.end(),
                     [](const gate::Phase& p) { return p.name == "generation"; }));
  CHECK(run.unattributed.size() == 4);
}

TEST_CASE("a result of many ranks is read with every rank's unattributed time and verdicts") {
  const Run run = gate::read_run(kRanks, {});
  CHECK(run.faults.empty());
  CHECK(phase(run, "treatment", kTransfer).seconds.size() == 18);
  CHECK(field(run, "ranks").find("tp=2") != std::string::npos);
  CHECK(field(run, "transport").find("nccl+peer") != std::string::npos);
  CHECK(std::any_of(run.unattributed.begin(), run.unattributed.end(),
                    [](const gate::Unattributed& u) { return u.where == "treatment, rank 1"; }));
  Json json = Json::parse(read_bytes(kRanks));
  json["ranks"]["rows"][1]["treatment"]["verified"]["layout"]["mismatches"] = 3;
  const TempDir folder;
  const Run wrong = gate::read_run(folder.write("r.json", json.dump()), {});
  REQUIRE(wrong.faults.size() == 1);
  CHECK(contains(wrong.faults[0], "treatment, rank 1"));
  CHECK(contains(wrong.faults[0], "3 mismatches of layout"));
}

TEST_CASE(
    "a result that failed, was refused or found a mismatch is faulty, and one without verification says so") {
  const TempDir folder;
  const Json good = Json::parse(read_bytes(kPublished));
  const auto read = [&](const Json& json) { return gate::read_run(folder.write("r.json", json.dump()), {}); };
  Json json = good;
  json["status"] = "failed";
  json["error"] = "the generator was killed";
  json["arms"] = nullptr;
  CHECK(contains(read(json).faults.at(0), "failed: the generator was killed"));
  json = good;
  json["status"] = "dry-run";
  CHECK(contains(read(json).faults.at(0), "dry-run"));
  json = good;
  json["status"] = "mismatch";
  json["arms"]["treatment"]["verify"]["wire"]["mismatches"] = 1;
  CHECK(contains(read(json).faults.at(0), "treatment: verification: 1 mismatches of wire"));
  json = good;
  json["arms"]["control"]["verify"] = nullptr;
  CHECK(read(json).faults.empty());
  CHECK(contains(read(json).notes.at(0), "--verify off"));
}

TEST_CASE("Google Benchmark: repetitions are samples, aggregates are not, a failed benchmark is a fault") {
  const TempDir folder;
  const Run run = gate::read_run(folder.write("g.json", test::kGoogleBenchmark), {});
  CHECK(run.source == gate::Source::google_benchmark);
  CHECK(run.fingerprint.empty());
  CHECK(phase(run, "", "pack/64").seconds == std::vector<double>{2e-6, 3e-6});
  CHECK(phase(run, "", "load").seconds == std::vector<double>{1.5e-3});
  Json json = Json::parse(test::kGoogleBenchmark);
  json["benchmarks"][3]["error_occurred"] = true;
  json["benchmarks"][3]["error_message"] = "no GPU";
  CHECK(
      contains(gate::read_run(folder.write("e.json", json.dump()), {}).faults.at(0), "load failed: no GPU"));
  json["benchmarks"] = {json["benchmarks"][2]};
  check_input_error([&] { (void)gate::read_run(folder.write("a.json", json.dump()), {}); }, "a.json",
                    "/benchmarks", "aggregates_only");
}

TEST_CASE(
    "nccl-tests: single iterations where there are some, the mean elsewhere, wrong elements are a fault") {
  const TempDir folder;
  const Run run = gate::read_run(folder.write("n.json", test::kNcclTests), {});
  CHECK(run.source == gate::Source::nccl_tests);
  CHECK(run.phases.size() == 3);
  CHECK(phase(run, "", "1024 bytes float sum out_of_place").seconds.size() == 3);
  CHECK(phase(run, "", "1024 bytes float sum out_of_place").seconds[0] == Approx(20e-6));
  CHECK(phase(run, "", "1024 bytes float sum in_place").seconds.size() == 1);
  CHECK(phase(run, "", "2048 bytes float sum in_place").seconds[0] == Approx(30e-6));
  Json json = Json::parse(test::kNcclTests);
  json["results"][0]["out_of_place"]["nwrong"] = 7.0;
  CHECK(contains(gate::read_run(folder.write("w.json", json.dump()), {}).faults.at(0), "7 wrong elements"));
  json["results"][0]["out_of_place"]["time"] = "nan";
  json["results"][0]["out_of_place_per_iter"] = nullptr;
  check_input_error([&] { (void)gate::read_run(folder.write("s.json", json.dump()), {}); },
                    "/results/0/out_of_place/time", "nan");
}

TEST_CASE(
    "NeMo-RL: timers by step in the order of the steps, without the first two, without rates and losses") {
  const TempDir folder;
  const Run run = gate::read_run(folder.write("m.json", test::kNemoRl), {});
  CHECK(run.source == gate::Source::nemo_rl);
  CHECK(run.phases.size() == 3);
  CHECK(phase(run, "", "prepare_for_generation/total").seconds == std::vector<double>{17.2, 17.3, 17.4});
  CHECK(phase(run, "", "timing/validation/generation").seconds.size() == 2);
  CHECK(contains(run.notes.at(0), "steps before 3"));
  Selection from_4;
  gate::parse_steps("4-9", from_4);
  const TempDir other;
  Json json = Json::parse(test::kNemoRl);
  json.erase("timing/validation/generation");
  const Run later = gate::read_run(other.write("m.json", json.dump()), from_4);
  CHECK(phase(later, "", "total_step_time").seconds == std::vector<double>{256.5});
}

TEST_CASE("samples are chosen by number, by range and by rule") {
  const TempDir folder;
  Json json = Json::parse(read_bytes(kPublished));
  Json& samples = json["arms"]["control"]["phases"][kTransfer]["samples_s"];
  samples = {3.0, 2.0, 1.02, 1.0, 1.01, 1.0, 0.99, 1.0, 1.0, 5.0};
  const std::string file = folder.write("r.json", json.dump());
  const auto chosen = [&](const Selection& selection) {
    return phase(gate::read_run(file, selection), "control", kTransfer).seconds;
  };
  CHECK(chosen({}).size() == 10);
  Selection selection;
  gate::parse_warmup("3", selection);
  CHECK(chosen(selection).front() == 1.0);
  selection = {};
  gate::parse_steps("2-4", selection);
  CHECK(chosen(selection) == std::vector<double>{2.0, 1.02, 1.0});
  selection = {};
  gate::parse_warmup("auto", selection);
  CHECK(chosen(selection).front() == 1.0);  // 1.02 is above what the later ones reach, too
  CHECK(chosen(selection).back() == 5.0);
  selection = {};
  gate::parse_steps("50-60", selection);
  check_input_error([&] { (void)chosen(selection); }, file, "samples_s", "none among those");
}

TEST_CASE("what is wrong with a file is said with its name and the key") {
  const TempDir folder;
  const Json good = Json::parse(read_bytes(kPublished));
  const std::string samples = "/arms/control/phases/prepare_for_generation~1total/samples_s";
  const auto refused = [&](const std::string& text, const auto&... words) {
    INFO(text.substr(0, 80));
    const std::string file = folder.write("bad.json", text);
    check_input_error([&] { (void)gate::read_run(file, {}); }, "bad.json", words...);
  };
  const auto with = [&](const std::string& pointer, const Json& value) {
    Json json = good;
    json[Json::json_pointer(pointer)] = value;
    return json.dump();
  };
  const std::string whole = good.dump(2);
  refused(whole.substr(0, whole.size() / 2), "line");
  refused("", "line 1");
  refused("[]", "no result");
  refused("3", "no result");
  refused("{}", "no result");
  refused(with("/schema", "refit-bench/2"), "refit-bench/2", "refit-bench/1");
  refused(with(samples + "/3", "0.5"), samples + "/3", "\"0.5\"");
  refused(with(samples + "/3", -0.5), samples + "/3", "-0.5");
  refused(with(samples + "/3", 1e300), samples, "1e+300 s");
  refused(with(samples + "/3", nullptr), samples + "/3", "null");
  refused(with(samples, Json::array()), samples, "no samples");
  refused(with(samples, Json::object()), samples, "array");
  refused(with(samples, std::vector<double>(100'001, 1.0)), samples, "100001");
  refused(with("/arms/control/wire_bytes", 1.5), "/arms/control/wire_bytes", "1.5");
  refused(with("/arms/control/phases", 3), "/arms/control/phases");
  refused(with("/arms", nullptr), "/arms is missing");
  refused(with("/status", nullptr), "/status is missing");
  std::string text = whole;
  text.replace(text.find("0.625673534"), 11, "NaN");
  refused(text, "line", "samples_s");
  text = whole;
  text.replace(text.find("0.625673534"), 11, "1e999");
  refused(text);
  refused("{\"schema\": \"refit-bench/1\", \"schema\": \"refit-bench/1\"}", "duplicate key");
  refused(std::string("{\"a\0b\": 1}", 10), "zero byte");
  refused(R"({"timing/train/x": {"one": 3}})", "/timing~1train~1x/one");
  refused(R"({"timing/train/x": {"3": 3, "03": 4}})", "second value");
  refused(R"({"timing/train/x": {"1": 3, "2": 4}})", "none among those");
  refused(R"({"timing/train/x": {}})", "no samples");
  refused(R"({"timing/train/x_per_sec": {"3": 1}})", "nothing that was timed");
}

TEST_CASE("folders, pipes, missing and oversized files are refused without waiting") {
  const TempDir folder;
  check_input_error([&] { (void)gate::read_run(folder.path("none.json"), {}); }, "none.json");
  check_input_error([&] { (void)gate::read_run(folder.path(""), {}); }, folder.path(""));
  REQUIRE(::mkfifo(folder.path("pipe").c_str(), 0600) == 0);
  check_input_error([&] { (void)gate::read_run(folder.path("pipe"), {}); }, "pipe");
  const std::string large = folder.write("large.json", "");
  REQUIRE(::truncate(large.c_str(), 65 << 20) == 0);
  check_input_error([&] { (void)gate::read_run(large, {}); }, "large.json", "bytes");
}

TEST_CASE("limits are strict, and name what was probably meant") {
  const TempDir folder;
  const auto refused = [&](const std::string& text, const auto&... words) {
    INFO(text);
    const std::string file = folder.write("gate.json", text);
    check_input_error([&] { (void)gate::read_limits(file); }, "gate.json", words...);
  };
  const std::string head = R"({"schema": "refit-gate-limits/1", )";
  refused(head + R"("x_flor": []})", "/x_flor", "x_floor");
  refused(head + R"("x_floor": [{"arm": "control", "phase": "p", "maximum": 3}]})", "/x_floor/0/maximum");
  refused(head + R"("x_floor": [{"arm": "control", "phase": "p"}]})", "/x_floor/0/max", "missing");
  refused(head + R"("x_floor": [{"arm": "control", "phase": "p", "max": "3"}]})", "/x_floor/0/max", "\"3\"");
  refused(head + R"("x_floor": [{"arm": "control", "phase": "p", "max": 0}]})", "above 0");
  refused(head + R"("x_floor": {"arm": "control"}})", "/x_floor", "array");
  refused(head + R"("wire_bytes": [{"arm": "control", "max_bytes": -3}]})", "/wire_bytes/0/max_bytes");
  refused(head + R"("mutants": {"all": true}})", "/mutants/all");
  refused(R"({"schema": "refit-gate-limits/1"})", "no limit");
  refused(R"({"schema": "refit-gate-limits/2", "x_floor": []})", "/schema", "refit-gate-limits/2");
  refused(R"({"x_floor": []})", "/schema", "missing");
  const gate::Limits limits = gate::read_limits(folder.write(
      "gate.json",
      head +
          R"("seconds": [{"phase": "p", "max_s": 0.5}], "ratio": [{"phase": "q", "arm": "treatment", "over": "control",
      "max": 0.8}], "peak_extra_bytes": [{"arm": "treatment", "max_bytes": 0}], "mutants": {"min_killed": 20}})"));
  CHECK(limits.seconds.at(0).arm.empty());
  CHECK(limits.ratio.at(0).most == 0.8);
  CHECK(limits.peak_extra_bytes.at(0).most == 0);
  CHECK(limits.mutants->least_killed == 20);
  CHECK_FALSE(limits.mutants->all_killed);
}

TEST_CASE("shares, times, ranges and fields are read strictly") {
  CHECK(gate::parse_share("5%", "x") == Approx(0.05));
  CHECK(gate::parse_share("0.03", "x") == 0.03);
  CHECK(gate::parse_share("0", "x") == 0);
  CHECK(gate::parse_seconds("0.1ms", "x") == Approx(1e-4));
  CHECK(gate::parse_seconds("20us", "x") == Approx(2e-5));
  CHECK(gate::parse_seconds("0s", "x") == 0);
  for (const char* text : {"", "%", "5 %", "-5%", "5%%", "nan", "inf", "five", "2000%", "0x1"}) {
    INFO(text);
    check_input_error([&] { (void)gate::parse_share(text, "--max-regression"); }, "--max-regression");
  }
  for (const char* text : {"", "1", "ms", "-1ms", "1 ms", "1min", "nanms"}) {
    INFO(text);
    check_input_error([&] { (void)gate::parse_seconds(text, "--min-effect"); }, "--min-effect");
  }
  for (const char* text : {"", "3", "3-", "-3", "0-3", "4-3", "3-4-5", "a-b"}) {
    INFO(text);
    check_input_error(
        [&] {
          Selection s;
          gate::parse_steps(text, s);
        },
        "--steps");
  }
  for (const char* text : {"", "-1", "automatic", "1.5"}) {
    INFO(text);
    check_input_error(
        [&] {
          Selection s;
          gate::parse_warmup(text, s);
        },
        "--warmup");
  }
  gate::require_fields({"driver", "cpu"});
  check_input_error([] { gate::require_fields({"drivers"}); }, "--allow", "\"driver\"");
}

TEST_CASE("what nobody verified or accounted for is said, and a verdict without a check is none") {
  const TempDir folder;
  const Json good = Json::parse(read_bytes(kPublished)), ranks = Json::parse(read_bytes(kRanks));
  const auto read = [&](const Json& json) { return gate::read_run(folder.write("r.json", json.dump()), {}); };
  CHECK(read(good).notes.empty());
  CHECK(read(ranks).notes.empty());
  Json json = good;
  json["arms"]["control"]["verify"] = Json::object();
  check_input_error([&] { (void)read(json); }, "r.json", "/arms/control/verify", "names no check");
  json = good;
  json["arms"]["control"]["verified_refits"] = 0;
  CHECK(contains(read(json).notes.at(0), "no refit was verified"));
  json = good;
  json["arms"]["treatment"]["unattributed_s"]["generator"] = nullptr;
  CHECK(contains(read(json).notes.at(0), "treatment, generator: time that belongs to no stage is not known"));
  json["arms"]["treatment"]["unattributed_s"] = Json{{"trainer", {{"share", 1e308}}}};
  check_input_error([&] { (void)read(json); }, "/arms/treatment/unattributed_s/trainer/share",
                    "all of the time");
  json = ranks;
  json["ranks"]["rows"][1]["treatment"]["verified"] = nullptr;
  CHECK(contains(read(json).notes.at(0), "1 verdict is missing"));
  json = Json::parse(test::kNcclTests);
  CHECK(contains(read(json).notes.at(0), "1 of 3 measurements were not checked for wrong elements"));
  json["results"][0]["in_place"]["nwrong"] = 0.0;
  CHECK(read(json).notes.empty());
}

TEST_CASE("times that no clock sees and more phases than anybody compares are refused") {
  const TempDir folder;
  const auto metrics = [&](std::size_t phases, double seconds) {
    Json json;
    for (std::size_t i = 0; i < phases; ++i) json["timing/train/" + std::to_string(i)] = {{"3", seconds}};
    return folder.write("m.json", json.dump());
  };
  CHECK(gate::read_run(metrics(10'000, 0), {}).phases.size() == 10'000);
  check_input_error([&] { (void)gate::read_run(metrics(10'001, 1), {}); }, "m.json", "10001 phases", "10000");
  check_input_error([&] { (void)gate::read_run(metrics(1, 5e-324), {}); }, "m.json", "sample of 5e-324 s");
}
