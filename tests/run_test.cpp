// Refits between two real processes, every pipeline and switch, and the parts they are made of.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "device/host_backend.hpp"
#include "refit/base/error.hpp"
#include "refit/checkpoint/writer.hpp"
#include "refit/device/weights.hpp"
#include "refit/run/bench.hpp"
#include "refit/run/faults.hpp"
#include "run/arm.hpp"
#include "run/loader.hpp"
#include "run/protocol.hpp"
#include "support/backends.hpp"
#include "support/catch.hpp"
#include "support/error_of.hpp"
#include "support/temp_dir.hpp"
#include "support/tiny_bench.hpp"

using namespace refit;

namespace {

run::BenchSpec spec_with(const std::string& control) {
  return test::tiny_bench(control, test::tested_backend());
}

using test::bench;

std::string findings(const verify::Verdict& verdict) {
  std::string text;
  for (const verify::Check check : verify::kChecks) {
    for (const verify::Finding& f : verdict[check].findings) {
      text += fmt::format("{}: {}[{}] {} != {}: {}\n", verify::name_of(check), f.tensor, f.index, f.got,
                          f.expected, f.what);
    }
  }
  return text;
}

}  // namespace

TEST_CASE("every setting of every switch gives a refit that verifies") {
  const std::string switches = GENERATE(
      as<std::string>{}, "", "pipeline=direct", "prequantize=off", "prequantize=off,quantize=batched",
      "quantize=batched", "metadata=offset-map", "handle_encoding=with-function", "handles=per-tensor",
      "handles=per-tensor,handle_encoding=with-function", "ipc_buffers=per-refit", "double_buffer=off",
      "loader=lookup", "shuffle=per-expert", "shuffle=fused", "shuffle=fused,loader=lookup,prequantize=off",
      "shuffle=fused,handles=per-tensor,quantize=batched", "quantize=per-bucket",
      "quantize=per-bucket,shuffle=fused", "quantize=per-bucket,prequantize=off",
      "quantize=per-bucket,buffer_size=300KiB,double_buffer=off",
      "quantize=per-bucket,shuffle=fused,ipc_buffers=per-refit,loader=lookup",
      "quantize=per-bucket,commit=shadow", "commit=shadow", "pipeline=direct,commit=shadow",
      "zero_scale=keep", "rounding=torchao-floor", "rounding=flashinfer-cuda,pipeline=direct",
      "buffer_size=512KiB", "quantize=batched,buffer_size=512KiB", "buffer_size=64MiB",
      "prequantize=off,ipc_buffers=per-refit,loader=lookup,shuffle=per-expert");
  CAPTURE(switches);
  const run::BenchResult result = bench(spec_with(switches));
  INFO(findings(result.control.verdict));
  CHECK(result.control.verdict.passed());
  CHECK(result.control.verified_refits == 2);
  CHECK(result.control.verdict[verify::Check::layout].bytes == 2 * result.destination_bytes);
  CHECK(result.steps == 2);
}

TEST_CASE(
    "weights of a checkpoint are refitted like seeded ones, and what does not fit the model is refused") {
  const run::BenchSpec seeded = spec_with("pipeline=direct");
  const plan::Plan plan = run::make_plan(seeded, seeded.control);
  std::vector<std::byte> weights(plan.source_arena_bytes);
  ThreadPool pool(2);
  device::fill_weights(device::weight_boxes(plan, weights), seeded.seed, pool);
  const auto written = [&](const std::string& path, bool bias_as_bf16) {
    std::vector<TensorSpec> tensors;
    for (const plan::Source& source : plan.sources) {
      tensors.push_back(source.spec);
      if (bias_as_bf16 && source.kind == model::Kind::router_bias) tensors.back().dtype = DType::bf16;
    }
    auto writer = checkpoint::Writer::file(path, tensors, {});
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      writer.write(i, 0, std::span(weights).subspan(plan.sources[i].offset, tensors[i].bytes()));
    }
    writer.commit();
  };
  const TempDir directory;
  run::BenchSpec spec = seeded;
  spec.checkpoint = directory.path("model.safetensors");
  written(spec.checkpoint, false);
  const run::BenchResult result = bench(spec);
  CHECK(result.control.verdict.passed());
  CHECK(result.control.parameters_digest == bench(seeded).control.parameters_digest);

  spec.checkpoint = directory.path("bias.safetensors");
  written(spec.checkpoint, true);
  check_input_error([&] { (void)bench(spec); }, "bias.safetensors", "e_score_correction_bias",
                    "is BF16, and F32");
  spec.checkpoint = directory.path("absent.safetensors");
  check_input_error([&] { (void)bench(spec); }, "absent.safetensors");
}

TEST_CASE("the tasks of one launch may run in any order") {
  // Buckets so small that many begin with the scales of the tensor that ended the one before and end with a
  // tensor whose scales begin the next.
  class Reversed : public device::HostBackend {
   public:
    using HostBackend::HostBackend;
    using HostBackend::run;
    void run(std::span<const device::Task> tasks) override { HostBackend::run(reversed(tasks)); }
    std::unique_ptr<device::Program> prepare(std::span<const device::Task> tasks) override {
      return HostBackend::prepare(reversed(tasks));
    }

   private:
    static std::vector<device::Task> reversed(std::span<const device::Task> tasks) {
      return {tasks.rbegin(), tasks.rend()};
    }
  };
  const std::string quantize = GENERATE(as<std::string>{}, "per-bucket", "batched", "per-tensor");
  const std::string commit = GENERATE(as<std::string>{}, "in-place", "shadow");
  CAPTURE(quantize, commit);
  run::BenchSpec spec =
      spec_with("buffer_size=12640,double_buffer=off,quantize=" + quantize + ",commit=" + commit);
  spec.backend = {device::Kind::cpu, device::Transport::shm, 1, 0};
  spec.steps = 3;
  const run::BenchResult result = run::run_bench(
      spec, [](const device::Choice& choice) { return std::make_unique<Reversed>(choice.threads); });
  INFO(findings(result.control.verdict));
  CHECK(result.control.verdict.passed());
}

TEST_CASE("both arms run the same number of steps, interleaved, and each is verified") {
  run::BenchSpec spec = spec_with("");
  spec.control_alone = false;
  spec.treatment.pipeline = plan::Pipeline::direct;
  spec.verify = run::VerifyWhen::first;
  spec.steps = 4;
  spec.warmup = 1;
  const run::BenchResult result = bench(spec);
  for (const run::ArmResult* arm : {&result.control, &result.treatment}) {
    INFO(findings(arm->verdict));
    CHECK(arm->verdict.passed());
    CHECK(arm->verified_refits == 1);
    CHECK(arm->trainer.wall.size() == 3);
    CHECK(arm->phases.at("prepare_for_generation/transfer_and_update_weights").seconds.size() == 3);
  }
  CHECK(result.warmup_control.size() == 1);
  CHECK(result.control.messages > result.treatment.messages);
}

TEST_CASE("stages and unattributed time add up to the wall time of each process") {
  const run::BenchResult result = bench(spec_with("prequantize=off"));
  const run::ArmResult& arm = result.control;
  for (const run::Role role : {run::Role::trainer, run::Role::generator}) {
    const auto& times = role == run::Role::trainer ? arm.trainer : arm.generator;
    for (std::size_t step = 0; step < times.wall.size(); ++step) {
      double sum = times.unattributed[step];
      for (const run::StageSamples& stage : arm.stages) {
        if (stage.role == role) sum += stage.seconds[step];
      }
      CHECK(sum == Approx(times.wall[step]).epsilon(1e-9));
    }
  }
}

TEST_CASE("router_bias=bf16 is found on exactly the bias tensors") {
  const std::string pipeline = GENERATE(as<std::string>{}, "staged", "direct");
  run::BenchSpec spec = spec_with("router_bias=bf16,pipeline=" + pipeline);
  const run::BenchResult result = bench(spec);
  std::set<std::string> tensors;
  for (const verify::Check check : verify::kChecks) {
    for (const verify::Finding& f : result.control.verdict[check].findings) tensors.insert(f.tensor);
  }
  CHECK(tensors == std::set<std::string>{"model.layers.1.mlp.gate.e_score_correction_bias",
                                         "model.layers.2.mlp.gate.e_score_correction_bias"});
  // The values are wrong; nothing is missing and nothing beside them was touched.
  CHECK(result.control.verdict[verify::Check::wire].mismatches == 0);
  CHECK(result.control.verdict[verify::Check::coverage].mismatches == 0);
}

TEST_CASE("every planted fault is found by the check that is meant to find it") {
  for (const run::Fault& fault : run::all_faults()) {
    CAPTURE(fault.name);
    run::BenchSpec spec = spec_with(std::string(fault.switches));
    spec.fault = std::string(fault.name);
    spec.steps = 1;
    const run::BenchResult result = bench(spec);
    INFO(findings(result.control.verdict));
    CHECK(result.control.verdict[fault.caught_by].mismatches > 0);
    CHECK(!result.control.verdict[fault.caught_by].findings.empty());
    CHECK(result.control.fault_acted);
  }
}

TEST_CASE("each check alone finds some fault: without it the fault survives") {
  const auto [fault, check] =
      GENERATE(table<std::string, verify::Check>({{"flip-bit-in-transit", verify::Check::wire},
                                                  {"flip-bit-before-sending", verify::Check::quantizer},
                                                  {"unshuffled", verify::Check::layout},
                                                  {"tensor-loaded-twice", verify::Check::coverage},
                                                  {"stale-version", verify::Check::coverage}}));
  CAPTURE(fault);
  run::BenchSpec spec = spec_with("");
  spec.fault = fault;
  spec.steps = 1;
  CHECK_FALSE(bench(spec).control.verdict.passed());
  spec.without = {check};
  const run::BenchResult result = bench(spec);
  INFO(findings(result.control.verdict));
  CHECK(result.control.verdict.passed());
}

TEST_CASE("a generator that cannot be started is an error and not a hang") {
  run::BenchSpec spec = spec_with("");
  spec.generator_program = "/nonexistent/generator";
  CHECK_THROWS_AS(bench(spec), Error);
  spec.generator_program = "/bin/true";
  CHECK_THROWS_AS(bench(spec), Error);
}

TEST_CASE("ten refits of unchanged weights give the same bytes") {
  // Shuffling what is already shuffled would show from the second refit on; verify=every compares each of
  // them.
  run::BenchSpec spec = spec_with("");
  spec.steps = 10;
  const run::BenchResult result = bench(spec);
  INFO(findings(result.control.verdict));
  CHECK(result.control.verdict.passed());
  CHECK(result.control.verified_refits == 10);
}

// --- parts
// ----------------------------------------------------------------------------------------------------------

TEST_CASE("memory of the last measured refit begins and ends with what is held, and its most is the peak") {
  const auto most = [](const std::vector<run::MemoryPoint>& points) {
    std::uint64_t bytes = 0;
    for (const run::MemoryPoint& point : points) bytes = std::max(bytes, point.bytes);
    return bytes;
  };
  // Verified refits come after the measured ones and must not take their place.
  run::BenchSpec spec = spec_with("ipc_buffers=per-refit,buffer_size=512KiB");
  spec.verify = run::VerifyWhen::every;
  const run::ArmResult arm = bench(spec).control;
  for (const auto* role : {&arm.trainer, &arm.generator}) {
    REQUIRE(role->memory.size() >= 2);
    CHECK(role->memory.front().seconds == 0);
    CHECK(std::is_sorted(role->memory.begin(), role->memory.end(),
                         [](const auto& a, const auto& b) { return a.seconds < b.seconds; }));
    CHECK(role->last.spans.empty());  // of which nobody asked for any
  }
  CHECK(most(arm.trainer.memory) + most(arm.generator.memory) <= arm.peak_extra_bytes);
  const auto& trainer = arm.trainer.memory;
  CHECK(trainer.size() >= 4);  // a buffer comes and goes within the refit
  CHECK(most(trainer) >= trainer.front().bytes + (512u << 10));
  CHECK(trainer.back().bytes == trainer.front().bytes);
}

TEST_CASE("a bucket message survives encoding in both forms of handles") {
  const auto encoding = GENERATE(plan::HandleEncoding::with_function, plan::HandleEncoding::arguments_only);
  run::BucketMessage message;
  message.slot = 1;
  message.used_bytes = 1000;
  message.buffer_bytes = 4096;
  message.memory_bytes = 8192;
  message.handles = {{0, 512}, {512, 488}};
  message.announces = true;
  message.token = std::string_view("to\0ken", 6);
  message.keys = "keys";
  const std::string body = run::encode_bucket_message(message, encoding);
  const run::BucketMessage read = run::decode_bucket_message(body, encoding);
  CHECK(read.slot == 1);
  CHECK(read.used_bytes == 1000);
  CHECK(read.buffer_bytes == 4096);
  CHECK(read.memory_bytes == 8192);
  REQUIRE(read.handles.size() == 2);
  CHECK(read.handles[1].offset == 512);
  CHECK(read.handles[1].bytes == 488);
  CHECK(read.announces);
  CHECK(read.token == message.token);
  CHECK(read.keys == "keys");
  for (std::size_t cut = 0; cut < body.size() - message.keys.size(); ++cut) {
    CAPTURE(cut);
    CHECK_THROWS_AS(run::decode_bucket_message(std::string_view(body).substr(0, cut), encoding), Error);
  }
}

TEST_CASE("handles that point outside their buffer are refused") {
  run::BucketMessage message;
  message.buffer_bytes = 4096;
  message.used_bytes = 4096;
  message.handles = {{4000, 97}};
  CHECK_THROWS_AS(
      run::decode_bucket_message(run::encode_bucket_message(message, plan::HandleEncoding::arguments_only),
                                 plan::HandleEncoding::arguments_only),
      Error);
  message.handles = {{~std::uint64_t{0}, 2}};
  CHECK_THROWS_AS(
      run::decode_bucket_message(run::encode_bucket_message(message, plan::HandleEncoding::arguments_only),
                                 plan::HandleEncoding::arguments_only),
      Error);
}

TEST_CASE("lookup and cached loaders lead every key to the plan's own place") {
  const auto loader = GENERATE(plan::Loader::lookup, plan::Loader::cached);
  run::BenchSpec spec = spec_with("");
  const run::Arm arm(spec, spec.control);
  run::LoaderRoutes routes(arm.plan, arm.wire, loader);
  for (int refit = 0; refit < 2; ++refit) {
    for (std::uint32_t e = 0; e < arm.wire.entries.size(); ++e) {
      const plan::Segment& segment = arm.plan.segments[arm.wire.entries[e].segment];
      CAPTURE(segment.wire_name);
      const run::Route route = routes.find(e);
      CHECK(route.destination == segment.destination);
      CHECK(route.matrix == segment.matrix);
      CHECK(route.row_begin == segment.row_begin);
    }
  }
}
