// From files to one verdict, and its renderings.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "refit/gate/gate.hpp"
#include "refit/gate/history.hpp"
#include "refit/gate/limits.hpp"
#include "refit/gate/render.hpp"
#include "support/catch.hpp"
#include "support/error_of.hpp"
#include "support/file_bytes.hpp"
#include "support/noise.hpp"
#include "support/temp_dir.hpp"

using namespace refit;
using gate::Report;
using gate::Run;
using gate::Settings;
using gate::Verdict;

namespace {

constexpr const char* kTotal = "prepare_for_generation/total";

/// A result whose control takes 2 s and whose treatment takes `seconds`.
Run result(double seconds, std::uint64_t seed, std::size_t samples = 20) {
  test::Noise noise(seed);
  Run run;
  run.file = fmt::format("{}.json", seed);
  run.fingerprint = {
      {"scenario", "abc"}, {"driver", "580"}, {"control", "a=1\nb=2"}, {"treatment", "a=2\nb=2"}};
  for (const auto& [arm, level] : {std::pair{"control", 2.0}, std::pair{"treatment", seconds}}) {
    gate::Phase phase{.arm = arm, .name = kTotal, .seconds = noise.plain(samples, 0.01)};
    for (double& sample : phase.seconds) sample *= level;
    phase.floor_s = 0.1;
    run.phases.push_back(phase);
    run.arms.push_back({arm, 1000, 50});
    run.unattributed.push_back({std::string(arm) + ", trainer", 0.001});
  }
  return run;
}

Run foreign(double seconds, std::uint64_t seed) {
  Run run = result(seconds, seed);
  run.source = gate::Source::nemo_rl;
  run.fingerprint.clear();
  run.arms.clear();
  run.unattributed.clear();
  run.phases.erase(run.phases.begin());
  run.phases[0].arm.clear();
  return run;
}

Verdict verdict(const Run& baseline, const Run& candidate, const Settings& settings = {}) {
  return gate::judge({baseline}, {candidate}, settings).verdict;
}

}  // namespace

TEST_CASE("the same passes, slower is a regression, faster an improvement, and exit codes say which") {
  CHECK(verdict(result(1, 1), result(1, 2)) == Verdict::pass);
  CHECK(verdict(result(1, 1), result(1.1, 2)) == Verdict::regression);
  CHECK(verdict(result(1, 1), result(0.9, 2)) == Verdict::improved);
  CHECK(verdict(result(1, 1), result(1.05, 2)) == Verdict::ambiguous);
  CHECK(gate::exit_code(Verdict::pass) == 0);
  CHECK(gate::exit_code(Verdict::improved) == 0);
  CHECK(gate::exit_code(Verdict::regression) == 1);
  CHECK(gate::exit_code(Verdict::invalid) == 2);
  CHECK(gate::exit_code(Verdict::ambiguous) == 3);
  CHECK(gate::exit_code(Verdict::mismatch) == 4);
}

TEST_CASE("thresholds are those of the phase, of its arm, or of all") {
  Settings settings;
  settings.max_regression = 0.2;
  CHECK(verdict(result(1, 1), result(1.1, 2), settings) == Verdict::pass);
  settings.of_phase[kTotal] = 0.03;
  CHECK(verdict(result(1, 1), result(1.1, 2), settings) == Verdict::regression);
  settings.of_phase[std::string("treatment: ") + kTotal] = 0.3;
  CHECK(verdict(result(1, 1), result(1.1, 2), settings) == Verdict::pass);
  settings.of_phase["nothing"] = 0.3;
  check_input_error([&] { (void)verdict(result(1, 1), result(1.1, 2), settings); }, "--phase nothing",
                    kTotal);
  settings = {};
  settings.min_effect_s = 0.5;
  CHECK(verdict(result(1, 1), result(1.1, 2), settings) == Verdict::pass);
}

TEST_CASE("only the arm and the phases that were asked for are looked at") {
  Settings settings;
  settings.arm = "control";
  CHECK(verdict(result(1, 1), result(1.1, 2), settings) == Verdict::pass);
  settings = {};
  settings.only = {std::string("control: ") + kTotal};
  CHECK(verdict(result(1, 1), result(1.1, 2), settings) == Verdict::pass);
  settings.only = {"nothing"};
  check_input_error([&] { (void)verdict(result(1, 1), result(1, 2), settings); }, "--only nothing");
  settings = {};
  settings.arm = "left";
  check_input_error([&] { (void)verdict(result(1, 1), result(1, 2), settings); }, "--arm left", "control");
}

TEST_CASE("different fingerprints are a mismatch, which nothing but --allow lifts") {
  Run other = result(1, 2);
  other.fingerprint[1].second = "590";
  const Report report = gate::judge({result(1, 1)}, {other}, {});
  CHECK(report.verdict == Verdict::mismatch);
  CHECK(report.phases.empty());
  REQUIRE(report.differences.size() == 1);
  CHECK(report.differences[0].field == "driver");
  Settings settings;
  settings.allow = {"driver"};
  const Report allowed = gate::judge({result(1, 1)}, {other}, settings);
  CHECK(allowed.verdict == Verdict::pass);
  CHECK(allowed.differences.at(0).allowed);
  other.fingerprint[1].second = "580";
  other.fingerprint[3].second = "a=3\nb=2";
  const Report switches = gate::judge({result(1, 1)}, {other}, {});
  CHECK(switches.verdict == Verdict::mismatch);
  CHECK(switches.differences.at(0).baseline == "a=2");
  CHECK(switches.differences.at(0).candidate == "a=3");
  settings = {};
  settings.arm = "control";  // nobody looks at what the treatment does
  CHECK(verdict(result(1, 1), other, settings) == Verdict::pass);
}

TEST_CASE("files of one side have to be of the same thing, too") {
  Run other = result(1, 2);
  other.fingerprint[0].second = "abd";
  CHECK(gate::judge({result(1, 1), other}, {result(1, 3)}, {}).verdict == Verdict::mismatch);
}

TEST_CASE("failed verification, unattributed time and a missing phase are invalid") {
  Run wrong = result(1, 2);
  wrong.faults = {"treatment: verification: 3 mismatches of layout"};
  const Report report = gate::judge({result(1, 1)}, {wrong}, {});
  CHECK(report.verdict == Verdict::invalid);
  CHECK(contains(report.faults.at(0), "2.json: treatment"));
  wrong = result(1, 2);
  wrong.unattributed[1].share = 0.03;
  CHECK(verdict(result(1, 1), wrong) == Verdict::invalid);
  Settings settings;
  settings.max_unattributed = 0.05;
  CHECK(verdict(result(1, 1), wrong, settings) == Verdict::pass);
  wrong = result(1, 2);
  wrong.phases.pop_back();
  const Report missing = gate::judge({result(1, 1)}, {wrong}, {});
  CHECK(missing.verdict == Verdict::invalid);
  CHECK(contains(missing.faults.at(0), std::string("treatment: ") + kTotal + " is missing"));
  CHECK(verdict(wrong, result(1, 1)) == Verdict::pass);  // a new phase has nothing to be compared with
}

TEST_CASE("a real training run is compared with another, and with one arm of a bench") {
  CHECK(verdict(foreign(1, 1), foreign(1.1, 2)) == Verdict::regression);
  const Report report = gate::judge({foreign(1, 1)}, {foreign(1, 2)}, {});
  CHECK(report.verdict == Verdict::pass);
  CHECK(contains(report.notes.at(0), "NeMo-RL files say nothing of scenario, device and versions"));
  check_input_error([] { (void)verdict(result(1, 1), foreign(1, 2)); }, "--arm");
  Settings settings;
  settings.arm = "treatment";
  CHECK(verdict(result(1, 1), foreign(1, 2), settings) == Verdict::pass);
  CHECK(verdict(foreign(1, 1), result(1.1, 2), settings) == Verdict::regression);
}

TEST_CASE("several files a side are cold starts, and one a side is said to be one") {
  const Report one = gate::judge({result(1, 1)}, {result(1, 2)}, {});
  CHECK(contains(one.notes.back(), "one cold start"));
  const Report many =
      gate::judge({result(1, 1), result(1, 2), result(1, 3)}, {result(1.2, 4), result(1.2, 5)}, {});
  CHECK(many.verdict == Verdict::regression);
  CHECK(many.notes.empty());
  CHECK(many.phases.at(0).decision.baseline.starts == 3);
}

TEST_CASE("limits hold a candidate alone, and every kind of limit can be broken") {
  const Run run = result(1, 1);
  gate::Limits limits{.file = "gate.json"};
  limits.x_floor = {{"treatment", kTotal, 11}};
  limits.seconds = {{"treatment", kTotal, 1.1}};
  limits.ratio = {{kTotal, "treatment", "control", 0.55}};
  limits.peak_extra_bytes = {{"control", 50}};
  limits.wire_bytes = {{"treatment", 1000}};
  limits.mutants = gate::MutantsLimit{true, 20};
  const std::optional<gate::Mutants> mutants = gate::Mutants{"m.json", 25, 25};
  const Report kept = gate::judge({}, {run}, {}, limits, mutants);
  CHECK(kept.verdict == Verdict::pass);
  CHECK(kept.checked.size() == 6);
  const auto broken = [&](auto change, const std::string& what) {
    gate::Limits tighter = limits;
    std::optional<gate::Mutants> counted = mutants;
    change(tighter, *counted);
    const Report report = gate::judge({}, {run}, {}, tighter, counted);
    INFO(what);
    CHECK(report.verdict == Verdict::regression);
    for (const gate::LimitResult& limit : report.checked) {
      CHECK((limit.decision.verdict == Verdict::regression) == (limit.what == what));
    }
  };
  broken([](gate::Limits& l, gate::Mutants&) { l.x_floor[0].most = 9; }, "x_floor");
  broken([](gate::Limits& l, gate::Mutants&) { l.seconds[0].most = 0.9; }, "seconds");
  broken([](gate::Limits& l, gate::Mutants&) { l.ratio[0].most = 0.45; }, "ratio");
  broken([](gate::Limits& l, gate::Mutants&) { l.peak_extra_bytes[0].most = 49; }, "peak_extra_bytes");
  broken([](gate::Limits& l, gate::Mutants&) { l.wire_bytes[0].most = 999; }, "wire_bytes");
  broken([](gate::Limits&, gate::Mutants& m) { m.killed = 24; }, "mutants");
  broken([](gate::Limits&, gate::Mutants& m) { m = {"m.json", 0, 0}; }, "mutants");
  broken([](gate::Limits&, gate::Mutants& m) { m = {"m.json", 19, 19}; }, "mutants");
}

TEST_CASE("a limit that names what no file has is bad input, not kept") {
  gate::Limits limits{.file = "gate.json"};
  const auto refused = [&](const auto&... words) {
    check_input_error([&] { (void)gate::judge({}, {result(1, 1)}, {}, limits); }, "gate.json", words...);
  };
  limits.seconds = {{"treatment", "nothing", 1}};
  refused("1.json", "nothing", "treatment");
  limits = {.file = "gate.json"};
  limits.seconds = {{"", kTotal, 1}};
  refused("no arm");
  limits = {.file = "gate.json"};
  limits.wire_bytes = {{"left", 1}};
  refused("left");
  limits = {.file = "gate.json"};
  limits.mutants = gate::MutantsLimit{};
  refused("--mutants");
  limits = {.file = "gate.json"};
  limits.x_floor = {{"treatment", kTotal, 1}};
  Run floorless = result(1, 1);
  floorless.phases[1].floor_s.reset();
  check_input_error([&] { (void)gate::judge({}, {floorless}, {}, limits); }, "no floor");
}

TEST_CASE("every rendering names verdict, phase and change, and none lets a name break out") {
  Run slow = result(1.2, 2);
  Run before = result(1, 1);
  const std::string odd = "a|b`<script>\n::error::x\x1b[2J%";
  before.phases[1].name = slow.phases[1].name = odd;
  before.file = "main.json";
  slow.file = "<b>&\"branch.json";
  const Report report = gate::judge({before}, {slow}, {});
  REQUIRE(report.verdict == Verdict::regression);
  const std::string table = gate::to_table(report), markdown = gate::to_markdown(report),
                    junit = gate::to_junit(report), annotations = gate::to_annotations(report);
  for (const std::string& text : {table, markdown, junit, annotations}) {
    INFO(text);
    CHECK(contains(text, "REGRESSION"));
    CHECK(contains(text, "+1"));
    CHECK_FALSE(contains(text, "\x1b"));
    CHECK_FALSE(contains(text, "\n::error::x"));
  }
  CHECK(contains(table, "baseline:  main.json"));
  CHECK_FALSE(contains(markdown, "<script>"));
  CHECK(contains(markdown, "a\\|b\\`&lt;script&gt;\\\\n::error::x"));
  CHECK(contains(junit, "&lt;script&gt;"));
  CHECK(contains(junit, "failures=\"1\""));
  CHECK(contains(annotations, "::error title=refit-gate::REGRESSION: treatment: a|b"));
  CHECK(contains(annotations, "%25"));
  const auto json = nlohmann::json::parse(gate::to_json(report));
  CHECK(json["verdict"] == "REGRESSION");
  CHECK(json["exit_code"] == 1);
  CHECK(json["phases"][1]["phase"] == odd);
  CHECK(json["phases"][1]["ratio"].get<double>() == Approx(1.2).margin(0.02));
}

TEST_CASE("Markdown fits a comment whatever the number of phases") {
  Run a = result(1, 1), b = result(1, 2);
  for (int i = 0; i < 300; ++i) {
    for (Run* run : {&a, &b}) {
      run->phases.push_back(run->phases[0]);
      run->phases.back().name = fmt::format("{}{:03}", std::string(80, 'x'), i);
    }
  }
  const std::string markdown = gate::to_markdown(gate::judge({a}, {b}, {}));
  CHECK(markdown.size() < 65'000);
  CHECK(contains(markdown, "and 202 more"));
}

TEST_CASE("change points are where the level changes, and nowhere else") {
  test::Noise noise(3);
  std::vector<double> series = noise.plain(40, 0.02);
  CHECK(gate::change_points(series, {.share = 0.05}, 1).empty());
  for (std::size_t i = 14; i < 28; ++i) series[i] *= 1.15;
  for (std::size_t i = 28; i < 40; ++i) series[i] *= 0.9;
  const auto points = gate::change_points(series, {.share = 0.05}, 1);
  REQUIRE(points.size() == 2);
  CHECK(points[0].first == 14);
  CHECK(points[1].first == 28);
  CHECK(points[0].after / points[0].before == Approx(1.15).margin(0.03));
  CHECK(points[1].after / points[1].before == Approx(0.9 / 1.15).margin(0.03));
  CHECK(gate::change_points(series, {.share = 0.5}, 1).empty());
}

TEST_CASE("a single outlier, equal values, short series and zeros are no change") {
  std::vector<double> series(20, 1.0);
  CHECK(gate::change_points(series, {.share = 0.05}, 1).empty());
  series[10] = 9;
  CHECK(gate::change_points(series, {.share = 0.05}, 1).empty());
  CHECK(gate::change_points({}, {}, 1).empty());
  CHECK(gate::change_points(std::vector<double>{1, 1, 2, 2}, {}, 1).empty());
  CHECK(gate::change_points(std::vector<double>(12, 0.0), {}, 1).empty());
}

TEST_CASE("of 300 series without a change at most 2 % show one") {
  std::size_t wrong = 0;
  for (std::uint64_t i = 0; i < 300; ++i) {
    test::Noise noise(1000 + i);
    wrong += gate::change_points(noise.heavy_tailed(30), {.share = 0.02}, i).empty() ? 0 : 1;
  }
  CAPTURE(wrong);
  CHECK(wrong <= 6);
}

TEST_CASE("a folder of results is put in order by date, apart by fingerprint, and says what it left out") {
  const TempDir folder;
  test::Noise noise(5);
  for (int day = 1; day <= 20; ++day) {
    nlohmann::json json;
    for (int step = 3; step < 12; ++step) {
      json["timing/train/total_step_time"][std::to_string(step)] =
          (day >= 12 ? 1.2 : 1.0) * (1 + 0.01 * noise.normal());
    }
    folder.write(fmt::format("run-{:02}.json", day), json.dump());
  }
  folder.write("broken.json", "{");
  folder.write("notes.txt", "no result");
  const gate::History history = gate::read_history(folder.path(""), {}, {}, 0.05, {}, 1);
  CHECK(history.runs == 20);
  REQUIRE(history.left_out.size() == 1);
  CHECK(contains(history.left_out[0], "broken.json"));
  REQUIRE(history.series.size() == 1);
  REQUIRE(history.series[0].changes.size() == 1);
  CHECK(history.series[0].changes[0].first == 11);
  const std::string table = gate::to_table(history);
  CHECK(contains(table, "run-12.json"));
  CHECK(contains(table, "slower"));
  CHECK(nlohmann::json::parse(gate::to_json(history))["series"][0]["changes"][0]["first"] == 11);
  const TempDir empty;
  check_input_error([&] { (void)gate::read_history(empty.path(""), {}, {}, 0.05, {}, 1); }, "no result");
  check_input_error([&] { (void)gate::read_history(empty.path("none"), {}, {}, 0.05, {}, 1); }, "none");
}

TEST_CASE("a phase that only candidates have is said to be compared with nothing") {
  Run candidate = result(1, 2);
  candidate.phases.push_back(candidate.phases[0]);
  candidate.phases.back().name = "new";
  const Report report = gate::judge({result(1, 1)}, {candidate}, {});
  CHECK(report.verdict == Verdict::pass);
  const std::string news = "in no baseline and not compared: control: new";
  CHECK(std::find(report.notes.begin(), report.notes.end(), news) != report.notes.end());
  CHECK(!contains(gate::to_table(gate::judge({result(1, 1)}, {result(1, 2)}, {})), "in no baseline"));
}

TEST_CASE("differences of very many lines are told at once and cut") {
  Run a = result(1, 1), b = result(1, 2);
  for (int i = 0; i < 300'000; ++i) {
    a.fingerprint[2].second += fmt::format("\nx{}=1", i);
    b.fingerprint[2].second += fmt::format("\nx{}=2", i);
  }
  const Report report = gate::judge({a}, {b}, {});
  CHECK(report.verdict == Verdict::mismatch);
  CHECK(contains(report.differences.at(0).baseline, "x0=1, x1=1"));
  CHECK(contains(report.differences.at(0).baseline, " and 299960 more"));
  Settings settings;
  settings.only = {"nothing"};
  for (int i = 0; i < 100; ++i) {
    a.phases.push_back(a.phases[0]);
    a.phases.back().name = fmt::format("p{}", i);
  }
  check_input_error([&] { (void)gate::judge({a}, {a}, settings); }, "no file has it", "more");
}

TEST_CASE("the most bytes that a file can name are no zero") {
  Run run = result(1, 1);
  run.arms[1].peak_extra_bytes = ~std::uint64_t{0};
  gate::Limits limits{.file = "gate.json"};
  limits.peak_extra_bytes = {{"treatment", 1000}};
  const Report report = gate::judge({}, {run}, {}, limits);
  CHECK(report.verdict == Verdict::regression);
  CHECK(!contains(gate::to_table(report), "  0 B"));
}

TEST_CASE("a floor that is none breaks no limit and keeps none") {
  Run run = result(1, 1);
  gate::Limits limits{.file = "gate.json"};
  limits.x_floor = {{"treatment", kTotal, 20}};
  CHECK(gate::judge({}, {run}, {}, limits).verdict == Verdict::pass);
  for (const double floor : {std::numeric_limits<double>::infinity(), 1e300, 1e-300, 0.0}) {
    run.phases[1].floor_s = floor;
    check_input_error([&] { (void)gate::judge({}, {run}, {}, limits); }, "gate.json", "has no floor");
  }
}

TEST_CASE("whatever is changed in a file, reading it never ends in more than a refusal") {
  using nlohmann::json;
  const std::string path =
      std::string(REFIT_TESTS_DIR) + "/../results/2026-11-30-2xh200-qwen3-30b/tp2-peer.json";
  json good = json::parse(read_bytes(path));
  const auto where = GENERATE(as<std::string>{}, "/arms/treatment/verify/layout/mismatches",
                              "/ranks/rows/1/treatment/verified/layout/mismatches");
  good["status"] = "mismatch";
  good[json::json_pointer(where)] = 5;
  // Each number of a series is read as every other.
  std::vector<json::json_pointer> pointers;
  const std::function<void(json&, const json::json_pointer&)> visit = [&](json& at,
                                                                          const json::json_pointer& pointer) {
    pointers.push_back(pointer);
    if (!at.is_structured()) return;
    if (at.is_array() && at.size() > 2 && at[0].is_number()) at.erase(at.begin() + 2, at.end());
    for (auto& [key, value] : at.items())
      visit(value, at.is_array() ? pointer / std::stoul(key) : pointer / key);
  };
  visit(good, json::json_pointer());
  const TempDir folder;
  const Run baseline = gate::read_run(path, {});
  const std::vector<json> values = {nullptr,       -1, 1e308, ~std::uint64_t{0}, "\x1b<a>", json::array(),
                                    json::object()};
  std::size_t judged = 0, refused = 0;
  for (std::size_t i = 1; i < pointers.size(); ++i) {
    json changed = good;
    changed[pointers[i]] = values[i % values.size()];
    CAPTURE(pointers[i].to_string(), values[i % values.size()].dump());
    const std::string file = folder.write("r.json", changed.dump());
    try {
      const Report report = gate::judge({baseline}, {gate::read_run(file, {})}, {});
      CHECK(report.verdict == Verdict::invalid);
      const std::string text = gate::to_table(report) + gate::to_annotations(report);
      CHECK(!contains(text, "\x1b"));
      CHECK(!contains(gate::to_junit(report), "<a>"));
      ++judged;
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::input);
      ++refused;
    }
  }
  CHECK(judged > 100);
  CHECK(refused > 100);
}
