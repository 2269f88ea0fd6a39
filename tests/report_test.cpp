// Reports: every figure in the JSON follows from the samples, and what is quoted or computed is labelled as
// such.
#include "refit/report/report.hpp"

#include <stdlib.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "base/json.hpp"
#include "support/catch.hpp"
#include "support/sample_report.hpp"

using namespace refit;
using namespace refit::report;
using namespace refit::test;
namespace fs = std::filesystem;

namespace {

/// The same on a GPU that copies 1000 bytes a second, too; the trainer's stages were timed by its events.
Report on_gpu() {
  Report report = sample();
  const device::Choice choice{device::Kind::cuda, device::Transport::cuda_vmm, 2, 1};
  report.replay->spec.backend = choice;
  run::BenchResult& result = *report.result;
  result.backend = choice;
  result.device = {"NVIDIA H200", "9.0", 150'000'000'000, 132, 62'914'560, "580.159.04", "13.0"};
  result.clocks_before = {1980, 3201, 31, 76'000, {"GpuIdle"}};
  result.clocks_after = {1755, 3201, 58, 699'600, {"SwPowerCap"}};
  result.copy.threads = 0;
  result.copy.to_host = {54, 52, 53};
  result.copy.from_host = {56, 57, 55};
  for (run::ArmResult* arm : {&result.control, &result.treatment}) {
    for (auto& [key, phase] : arm->phases) phase.stand_in = false;
    for (run::StageSamples& stage : arm->stages) {
      if (stage.role == run::Role::trainer) stage.device_seconds = 2;
    }
  }
  return report;
}

Report mismatched() {
  Report report = sample();
  verify::Result& layout = report.result->treatment.verdict[verify::Check::layout];
  layout.add({"model.w13", 7, "0x7e", "0x00", 12, "differs from the per-expert reference"});
  layout.mismatches = 12;
  report.status = status_of(*report.result);
  return report;
}

Report dry_run() {
  Report report = sample();
  report.status = Status::dry_run;
  report.result.reset();
  return report;
}

Report dry_run_for_gpu() {
  Report report = dry_run();
  report.replay->spec.backend = {device::Kind::cuda, device::Transport::cuda_ipc, 1, 0};
  report.replay->memory_budget = std::numeric_limits<std::uint64_t>::max();
  return report;
}

Report refused() {
  Report report = dry_run();
  report.status = Status::refused;
  report.message = "expert width 1856 is not a multiple of 128";
  report.replay.reset();
  return report;
}

Report failed() {
  Report report = dry_run();
  report.status = Status::failed;
  report.message = "the generator is gone: killed by signal 9 (Killed)";
  return report;
}

}  // namespace

TEST_CASE("a measured phase keeps its samples and derives everything else from them") {
  const Json phase = json_of(sample())["arms"]["control"]["phases"][kTransfer];
  CHECK(phase["source"] == "measured");
  CHECK(phase["samples_s"] == Json({2, 4, 3}));
  CHECK(phase["median_s"] == 3);
  CHECK(phase["mean_s"] == 3);
  CHECK(phase["min_s"] == 2);
  CHECK(phase["max_s"] == 4);
  CHECK(phase["spread"].get<double>() == Approx(0.5 / 3));  // quartiles 2.5 and 3.5
  CHECK(phase["floor_bytes"] == 1000);
  CHECK(phase["x_floor"] == 3);  // 3 s over 1000 bytes at 1000 bytes a second
  CHECK(phase["x_direct_floor"] == 3);
  CHECK(phase["extrapolated_s"] == 12);  // the model has four times the floor bytes
  CHECK(phase["published_s"] == 9.67);
  CHECK(phase["published_source"] == "PR 3294");
}

TEST_CASE("only a staged arm's transfer is compared with the direct floor") {
  Report report = sample();
  report.result->treatment.switches.pipeline = plan::Pipeline::direct;
  const Json arms = json_of(report)["arms"];
  CHECK(arms["control"]["phases"][kTransfer]["x_direct_floor"] == 3);
  CHECK(arms["control"]["phases"][kTotal]["x_direct_floor"].is_null());
  CHECK(arms["treatment"]["phases"][kTransfer]["x_direct_floor"].is_null());
  CHECK(arms["treatment"]["phases"][kTransfer]["x_floor"] == 1.5);
}

TEST_CASE("phases say whether they were measured, stood in for, published or neither") {
  const Json phases = json_of(sample())["arms"]["treatment"]["phases"];
  CHECK(phases[kTotal]["source"] == "measured");
  CHECK(phases[kOffload]["source"] == "stand-in");
  CHECK(phases[kSwap]["source"] == "stand-in");
  CHECK(phases["generation"]["source"] == "published");
  CHECK(phases["generation"]["samples_s"].empty());
  CHECK(phases["generation"]["median_s"].is_null());
  CHECK(phases["generation"]["published_s"] == 51.8);
  CHECK(phases["policy_training"]["source"] == "not-published");
  CHECK(phases["policy_training"]["published_source"].is_null());
  CHECK(phases["total_step_time"]["source"] == "not-published");
  CHECK(phases["total_step_time"]["published_s"].is_null());
}

TEST_CASE("nothing is extrapolated when the whole model was replayed") {
  Report report = sample();
  report.replay->spec.slice = {};
  const Json json = json_of(report);
  CHECK(json["arms"]["control"]["phases"][kTransfer]["extrapolated_s"].is_null());
  CHECK(json["replayed"]["whole_model"] == true);
}

TEST_CASE("a floor of no bytes, or no measured bandwidth, gives null and never infinity") {
  Report report = sample();
  CHECK(json_of(report)["arms"]["control"]["phases"][kTotal]["x_floor"].is_null());
  CHECK(json_of(report)["arms"]["control"]["stages"]["wait"]["x_floor"].is_null());
  report.result->copy = {};
  const Json json = json_of(report);
  CHECK(json["copy_bandwidth"].is_null());
  CHECK(json["arms"]["control"]["stages"]["pack"]["x_floor"].is_null());
  report.result->control.phases[kTransfer].seconds = {std::numeric_limits<double>::infinity()};
  CHECK(json_of(report)["arms"]["control"]["phases"][kTransfer]["median_s"].is_null());
}

TEST_CASE("stages are keyed by name, and by role too where both roles have it") {
  const Json stages = json_of(sample())["arms"]["control"]["stages"];
  CHECK(stages.size() == 4);
  CHECK(stages["wait"]["role"] == "trainer");
  CHECK(stages["generator.wait"]["role"] == "generator");
  CHECK(stages["generator.wait"]["samples_s"] == Json({2, 2, 2}));
  CHECK(stages["load"]["role"] == "generator");
  CHECK(stages["pack"]["median_s"] == 0.5);
  CHECK(stages["pack"]["bytes"] == 500);
  CHECK(stages["pack"]["launches"] == 7);
  CHECK(stages["pack"]["x_floor"] == 1);
}

TEST_CASE("unattributed time is given for each process, with its share of the wall") {
  const Json rest = json_of(sample())["arms"]["control"]["unattributed_s"];
  CHECK(rest["trainer"]["samples_s"] == Json({0.02, 0.02, 0.04}));
  CHECK(rest["trainer"]["wall_s"] == Json({2, 2, 4}));
  CHECK(rest["trainer"]["median_s"] == 0.02);
  CHECK(rest["trainer"]["share"].get<double>() == Approx(0.01));
  CHECK(rest["generator"]["share"].get<double>() == Approx(0.00125));
}

TEST_CASE("the comparison is of medians where both arms were timed, else of what was published") {
  const Json comparison = json_of(sample())["comparison"];
  CHECK(comparison[kTransfer]["source"] == "measured");
  CHECK(comparison[kTransfer]["control_s"] == 3);
  CHECK(comparison[kTransfer]["treatment_s"] == 1.5);
  CHECK(comparison[kTransfer]["ratio"] == 0.5);
  CHECK(comparison[kTransfer]["change"] == -0.5);
  // Pairs are drawn together, and every pair has the same ratio.
  CHECK(comparison[kTransfer]["ci95"] == Json({0.5, 0.5}));
  CHECK(comparison["generation"]["source"] == "published");
  CHECK(comparison["generation"]["control_s"] == 49.8);
  CHECK(comparison["generation"]["change"].get<double>() == Approx(51.8 / 49.8 - 1));
  CHECK(comparison["generation"]["ci95"].is_null());
  CHECK(comparison["policy_training"]["source"] == "published");
  CHECK(comparison["policy_training"]["treatment_s"].is_null());
  CHECK(comparison["policy_training"]["change"].is_null());
  CHECK(comparison["total_step_time"]["source"] == "not-published");
}

TEST_CASE("model, traffic and switches are numbers where they are numbers") {
  const Json json = json_of(sample());
  CHECK(json["schema"] == "refit-bench/1");
  CHECK(json["status"] == "ok");
  CHECK(json["model"]["architecture"] == "Qwen3MoeForCausalLM");
  CHECK(json["model"]["tensors"] == 2);
  CHECK(json["model"]["parameters"] == 32 * 64 + 64);
  CHECK(json["model"]["bytes"] == 2 * 32 * 64 + 4 * 64);
  CHECK(json["model"]["expert_bytes"] == 2 * 32 * 64);
  CHECK(json["model"]["mtp_tensors"] == 1);
  CHECK(json["model"]["floor_bytes"] == 4000);
  CHECK(json["model"]["wire_bytes"]["control"] == 2400);
  CHECK(json["replayed"]["wire_bytes"]["control"] == 600);
  CHECK(json["replayed"]["fraction"] == 0.25);
  CHECK(json["replayed"]["extrapolation"] == 4);
  const Json& control = json["arms"]["control"];
  CHECK(control["switches"]["buffer_size"] == std::uint64_t{4} << 30);
  CHECK(control["switches"]["prequantize"] == "off");
  CHECK(json["arms"]["treatment"]["switches"]["prequantize"] == "on");
  CHECK(control["wire_bytes"] == 600);
  CHECK(control["messages"] == 9);
  CHECK(control["message_bytes"] == 77);
  CHECK(control["handles_opened"] == 5);
  CHECK(control["handles_left_open"] == 2);
  CHECK(control["verify_s"] == 0.75);
  CHECK(control["peak_extra_bytes"] == 1234);
  CHECK(control["warmup_s"] == Json({9, 8}));
  CHECK(json["copy_bandwidth"]["bytes_per_second"] == 1000);
  CHECK(json["run"]["measured_steps"] == 3);
  CHECK(json["environment"]["git_dirty"] == true);
  CHECK(json["environment"]["argv"] == Json({"refit-bench", "--scenario", "sample"}));
  CHECK(json["environment"]["cpu_model"].is_null());
}

TEST_CASE("on the CPU everything that only a GPU has is null") {
  const Json json = json_of(sample());
  CHECK(json["settings"]["backend"] == "cpu");
  CHECK(json["settings"]["transport"] == "shm");
  CHECK(json["device"].is_null());
  CHECK(json["copy_bandwidth"]["threads"] == 2);
  CHECK(json["copy_bandwidth"]["to_host_bytes_per_second"].is_null());
  CHECK(json["copy_bandwidth"]["from_host_bytes_per_second"].is_null());
  CHECK(json["copy_bandwidth"]["to_host_samples"].empty());
  for (const auto& [name, stage] : json["arms"]["control"]["stages"].items())
    CHECK(stage["device_s"].is_null());
  const std::string table = to_table(sample());
  CHECK(table.find("gpu") == table.npos);
  CHECK(table.find("GPU") == table.npos);
}

TEST_CASE("a GPU is described with its driver, its clocks and how it copies") {
  const Json json = json_of(on_gpu());
  CHECK(json["settings"]["backend"] == "cuda");
  CHECK(json["settings"]["transport"] == "cuda-vmm");
  const Json& device = json["device"];
  CHECK(device["ordinal"] == 1);
  CHECK(device["name"] == "NVIDIA H200");
  CHECK(device["compute_capability"] == "9.0");
  CHECK(device["memory_bytes"] == 150'000'000'000);
  CHECK(device["multiprocessors"] == 132);
  CHECK(device["l2_bytes"] == 62'914'560);
  CHECK(device["driver"] == "580.159.04");
  CHECK(device["runtime"] == "13.0");
  CHECK(device["clocks_before"]["sm_mhz"] == 1980);
  CHECK(device["clocks_before"]["throttle_reasons"] == Json({"GpuIdle"}));
  CHECK(device["clocks_after"] == Json({{"sm_mhz", 1755},
                                        {"memory_mhz", 3201},
                                        {"temperature_c", 58},
                                        {"power_mw", 699'600},
                                        {"throttle_reasons", Json::array({"SwPowerCap"})}}));
  CHECK(json["copy_bandwidth"]["threads"].is_null());
  CHECK(json["copy_bandwidth"]["to_host_bytes_per_second"] == 53);
  CHECK(json["copy_bandwidth"]["to_host_samples"] == Json({54, 52, 53}));
  CHECK(json["copy_bandwidth"]["from_host_bytes_per_second"] == 56);
  CHECK(json["copy_bandwidth"]["from_host_samples"] == Json({56, 57, 55}));
}

TEST_CASE("clocks that nobody could read are null, and so is what holds them down") {
  Report report = on_gpu();
  report.result->clocks_before = report.result->clocks_after = {};
  const Json clocks = json_of(report)["device"]["clocks_after"];
  CHECK(clocks["sm_mhz"].is_null());
  CHECK(clocks["throttle_reasons"].is_null());
  CHECK(contains(to_table(report), "clocks are not known"));
}

TEST_CASE("a stage's multiple of the floor is of the GPU's time, and of the host's only on the CPU") {
  const Json stages = json_of(on_gpu())["arms"]["control"]["stages"];
  CHECK(stages["pack"]["device_s"] == 2);
  CHECK(stages["pack"]["median_s"] == 0.5);
  CHECK(stages["pack"]["x_floor"] == 4);  // 2 s for 500 bytes at 1000 bytes a second
  CHECK(stages["load"]["device_s"].is_null());
  CHECK(stages["load"]["x_floor"].is_null());
}

TEST_CASE("on a GPU the table names it, shows its times beside the host's and has no stand-ins") {
  const std::string table = to_table(on_gpu());
  for (const char* part : {"Backend cuda, transport cuda-vmm: GPU 1, NVIDIA H200",
                           "driver 580.159.04, CUDA 13.0", "SM 1980 -> 1755", "76 -> 700 W",
                           "throttled by SwPowerCap.", "off gpu", "on gpu", "GPU's own", "the GPU copies"}) {
    CHECK(contains(table, part));
  }
  CHECK(table.find("threads in each process") == table.npos);
  CHECK(table.find("stand") == table.npos);
  CHECK(table.find("offload_before_refit *") == table.npos);
  CHECK(contains(table, "offload_before_refit "));
  CHECK(json_of(on_gpu())["arms"]["control"]["phases"][kOffload]["source"] == "measured");
  CHECK(contains(table, "  pack           0.5000   0.5000    2.000    2.000         7 / 7"));
  CHECK(widest_line(table) <= 100);
}

TEST_CASE("a GPU without a profiled warm-up shows no times of its own") {
  Report report = on_gpu();
  for (run::ArmResult* arm : {&report.result->control, &report.result->treatment}) {
    for (run::StageSamples& stage : arm->stages) stage.device_seconds.reset();
  }
  const std::string table = to_table(report);
  CHECK(table.find("off gpu") == table.npos);
  CHECK(table.find("events") == table.npos);
  CHECK(json_of(report)["arms"]["control"]["stages"]["pack"]["x_floor"].is_null());
}

TEST_CASE("host traffic that a scenario has none of has no row") {
  Report report = on_gpu();
  report.replay->spec.host_traffic.reference_swap_bytes = 0;
  const std::string table = to_table(report);
  CHECK(table.find("reference_swap     ") == table.npos);  // the switch of that name stays
  CHECK(contains(table, "offload_before_refit"));
}

TEST_CASE("a dry run for a GPU that is not here has no budget") {
  const Report report = dry_run_for_gpu();
  CHECK(json_of(report)["replayed"]["memory_budget_bytes"].is_null());
  CHECK(json_of(report)["settings"]["transport"] == "cuda-ipc");
  CHECK(json_of(report)["device"].is_null());
  CHECK(contains(to_table(report), "GPU memory of both processes"));
  CHECK(contains(to_table(report), "memory budget none"));
}

TEST_CASE("a difference makes the status a mismatch and is told with tensor, index, expected and got") {
  const Report report = mismatched();
  CHECK(report.status == Status::mismatch);
  const Json json = json_of(report);
  CHECK(json["status"] == "mismatch");
  CHECK(json["arms"]["control"]["verify"]["layout"]["mismatches"] == 0);
  const Json& layout = json["arms"]["treatment"]["verify"]["layout"];
  CHECK(layout["mismatches"] == 12);
  CHECK(layout["findings"][0] == Json({{"tensor", "model.w13"},
                                       {"index", 7},
                                       {"expected", "0x7e"},
                                       {"got", "0x00"},
                                       {"count", 12},
                                       {"what", "differs from the per-expert reference"}}));
  const std::string table = to_table(report);
  CHECK(contains(table, "layout DIFFERS (12 mismatches)"));
  CHECK(contains(table, "model.w13"));
  CHECK(contains(table, "expected 0x7e, got 0x00"));
}

TEST_CASE("an arm that was not verified says null, not equal") {
  Report report = sample();
  report.result->control.verified_refits = 0;
  CHECK(json_of(report)["arms"]["control"]["verify"].is_null());
  CHECK(json_of(report)["arms"]["control"]["verify_s"].is_null());
  CHECK(contains(to_table(report), "off not verified"));
}

TEST_CASE("a dry run, a refusal and a failure carry what is known and nothing that was not measured") {
  const Json dry = json_of(dry_run());
  CHECK(dry["status"] == "dry-run");
  CHECK(dry["run"].is_null());
  CHECK(dry["arms"]["control"]["wire_bytes"] == 600);
  CHECK_FALSE(dry["arms"]["control"].contains("stages"));
  CHECK_FALSE(dry.contains("refused"));

  const Json no = json_of(refused());
  CHECK(no["status"] == "refused");
  CHECK(no["refused"] == "expert width 1856 is not a multiple of 128");
  CHECK(no["model"]["tensors"] == 2);
  CHECK_FALSE(no["model"].contains("wire_bytes"));
  CHECK(no["replayed"].is_null());
  CHECK(no["arms"].is_null());

  const Json dead = json_of(failed());
  CHECK(dead["status"] == "failed");
  CHECK(contains(dead["error"].get<std::string>(), "killed by signal 9"));
  CHECK(dead["arms"]["treatment"]["phases"][kTransfer]["source"] == "published");
}

TEST_CASE("memory over time is seconds and bytes of each role, and null where nobody counted") {
  Report report = sample();
  CHECK(json_of(report)["arms"]["control"]["memory_timeline"].is_null());
  report.result->control.trainer.memory = {{0, 0}, {0.25, 700}, {1, 0}};
  report.result->control.generator.memory = {{0, 5}, {0.9, 5}};
  const Json arms = json_of(report)["arms"];
  CHECK(arms["control"]["memory_timeline"]["trainer"] == Json({{0.0, 0}, {0.25, 700}, {1.0, 0}}));
  CHECK(arms["control"]["memory_timeline"]["generator"] == Json({{0.0, 5}, {0.9, 5}}));
  CHECK(arms["treatment"]["memory_timeline"].is_null());
  // The same as a counter's track a role in a trace.
  std::vector<Json> counters;
  const Json trace = Json::parse(to_trace(report));
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "C") counters.push_back(event);
  }
  REQUIRE(counters.size() == 5);
  CHECK(counters[1]["ts"] == 250'000.0);
  CHECK(counters[1]["args"] == Json({{"bytes", 700}}));
  CHECK(counters[1]["name"] == counters[2]["name"]);
  CHECK(counters[2]["name"] != counters[3]["name"]);
}

TEST_CASE("names that are no UTF-8 do not break the JSON") {
  Report report = mismatched();
  report.result->treatment.verdict[verify::Check::layout].findings[0].tensor = "bad\xff name";
  report.environment.argv = {"\xc3\x28"};
  CHECK_NOTHROW(json_of(report));
}

TEST_CASE(
    "the table begins with what is replayed, labels every kind of figure and stays within 100 columns") {
  const std::string table = to_table(sample());
  CHECK(table.starts_with("sample: replays 2 of 8 layers\n"));
  CHECK(contains(table, "extrapolated to the whole model"));
  CHECK(contains(table, "computed, not measured"));
  CHECK(contains(table, "Published: PR 3294."));
  CHECK(contains(table, "host-memory copies in place of device traffic"));
  CHECK(contains(table, "offload_before_refit *"));
  CHECK(contains(table, "9.67 -> 2.98"));
  CHECK(contains(table, "-50.0 %"));
  CHECK(contains(table, "91 -> -"));
  CHECK(contains(table, "unattributed"));
  CHECK(contains(table, "wire equal (1.00 KB)"));
  for (const Report& report : {sample(), on_gpu(), mismatched(), dry_run(), refused(), failed()}) {
    CHECK(widest_line(to_table(report)) <= 100);
  }
}

TEST_CASE("large numbers keep the table within 100 columns") {
  for (Report report : {sample(), on_gpu()}) {
    for (run::ArmResult* arm : {&report.result->control, &report.result->treatment}) {
      for (auto& [key, phase] : arm->phases) {
        phase.seconds = {1234.5, 2345.6, 123456.7};
        phase.floor_bytes = std::uint64_t{1} << 60;
      }
      for (run::StageSamples& stage : arm->stages) {
        stage.launches = 12345678;
        stage.bytes = 123456789012345;
        stage.seconds = {1234.5, 2345.6, 123456.7};
        if (stage.device_seconds) stage.device_seconds = 0.001234567;
      }
    }
    report.result->copy.bytes_per_second = 4e17;
    CHECK(widest_line(to_table(report)) <= 100);
  }
}

TEST_CASE("the table of a refused model still shows the model and the reason") {
  const std::string table = to_table(refused());
  CHECK(contains(table, "2 tensors, 2112 parameters"));
  CHECK(contains(table, "Refused: expert width 1856 is not a multiple of 128"));
}

TEST_CASE("this machine's environment is filled in, and only from the allow-list") {
  ::setenv("REFIT_SECRET", "do not tell", 1);
  const Environment environment =
      collect_environment({"0.1.0", "", "", std::nullopt, std::nullopt}, {"a", "b"});
  CHECK(environment.usable_cpus >= 1);
  CHECK(environment.logical_cpus >= environment.usable_cpus);
  CHECK(environment.memory_total_bytes > 0);
  CHECK(environment.kernel.starts_with("Linux "));
  CHECK(environment.date_utc.size() == 20);
  Report report = sample();
  report.environment = environment;
  CHECK(to_json(report).find("do not tell") == std::string::npos);
  CHECK(json_of(report)["environment"]["git_commit"].is_null());
}

TEST_CASE("reports of every status are written for the schema check") {
  // ctest names the folder, and scripts/validate-json reads it in the test "report_schema".
  const char* directory = std::getenv("REFIT_REPORTS_DIR");
  if (directory == nullptr) return;
  fs::create_directories(directory);
  Report whole = sample();
  whole.replay->spec.slice = {};
  whole.result->control.trainer.memory = {{0, 0}, {0.25, 700}, {1, 0}};
  Report unverified = sample();
  unverified.result->control.verified_refits = 0;
  unverified.result->copy = {};
  unverified.environment.build.git_commit.reset();
  unverified.environment.build.git_dirty.reset();
  Report silent_gpu = on_gpu();
  silent_gpu.result->device = {};
  silent_gpu.result->clocks_before = silent_gpu.result->clocks_after = {};
  const std::pair<const char*, Report> reports[] = {
      {"ok", sample()},           {"mismatch", mismatched()},
      {"dry-run", dry_run()},     {"refused", refused()},
      {"failed", failed()},       {"whole", whole},
      {"unverified", unverified}, {"gpu", on_gpu()},
      {"silent-gpu", silent_gpu}, {"gpu-dry-run", dry_run_for_gpu()}};
  for (const auto& [name, report] : reports) {
    std::ofstream file(fs::path(directory) / (std::string(name) + ".json"));
    file << to_json(report);
    CHECK(file.flush().good());
  }
}
