// Refits between two processes on a GPU: both roads, handles, and a reader that is slower than its sender.
#include "refit/base/error.hpp"
#include "refit/run/bench.hpp"
#include "support/catch.hpp"
#include "support/tiny_bench.hpp"

using namespace refit;

namespace {

using test::bench;

device::Choice gpu_over(device::Transport transport) {
  return {device::Kind::cuda, transport, 2, 0};
}

}  // namespace

TEST_CASE("both roads between two processes verify, with every lifetime of handles and buffers") {
  const auto transport = GENERATE(device::Transport::cuda_ipc, device::Transport::cuda_vmm);
  const std::string switches =
      GENERATE(as<std::string>{}, "", "handles=per-tensor", "ipc_buffers=per-refit",
               "ipc_buffers=per-refit,handles=per-tensor,double_buffer=off", "pipeline=direct",
               "pipeline=direct,commit=shadow", "shuffle=fused,quantize=batched");
  CAPTURE(device::name_of(transport), switches);
  const run::BenchResult result = bench(test::tiny_bench(switches, gpu_over(transport)));
  CHECK(result.control.verdict.passed());
  CHECK(result.control.verified_refits == 2);
}

TEST_CASE("200 refits leave no handle open") {
  const auto transport = GENERATE(device::Transport::cuda_ipc, device::Transport::cuda_vmm);
  const std::string buffers = GENERATE("per-refit", "persistent");
  CAPTURE(device::name_of(transport), buffers);
  run::BenchSpec spec = test::tiny_bench("handles=per-tensor,ipc_buffers=" + buffers, gpu_over(transport));
  spec.steps = 200;
  spec.verify = run::VerifyWhen::off;
  const run::BenchResult result = bench(spec);
  CHECK(result.control.handles_opened > 100);
  // Persistent buffers stay open, and nothing else does.
  CHECK(result.control.handles_left == (buffers == "persistent" ? 2 : 0));
}

TEST_CASE("parameters are the same bytes after a refit on the host and on the GPU") {
  const std::string switches =
      GENERATE("pipeline=direct", "", "prequantize=off,shuffle=per-expert,loader=lookup");
  CAPTURE(switches);
  const run::BenchResult gpu = bench(test::tiny_bench(switches, gpu_over(device::Transport::cuda_ipc)));
  const run::BenchResult cpu =
      bench(test::tiny_bench(switches, {device::Kind::cpu, device::Transport::shm, 2, 0}));
  CHECK(gpu.control.parameters_digest != 0);
  CHECK(gpu.control.parameters_digest == cpu.control.parameters_digest);
}

TEST_CASE("a sender never reuses a buffer that a slow receiver still reads") {
  const auto transport = GENERATE(device::Transport::cuda_ipc, device::Transport::cuda_vmm);
  run::BenchSpec spec = test::tiny_bench("double_buffer=off,buffer_size=256KiB", gpu_over(transport));
  spec.steps = 1;
  spec.fault = "slow-receiver";
  const run::BenchResult right = bench(spec);
  CHECK(right.control.fault_acted);
  CHECK(right.control.verdict.passed());
  // The proof that this test can fail: with an early acknowledgement the same delay shows.
  spec.fault = "slow-receiver-early-acknowledge";
  CHECK_FALSE(bench(spec).control.verdict.passed());
}

TEST_CASE("a buffer whose guard lies in a granule of its own is opened whole") {
  // 2 MiB of buffer and its guard take two granules of cuMemCreate, and the buffer alone would take one.
  run::BenchSpec spec = test::tiny_bench("buffer_size=4MiB,quantize=per-bucket,shuffle=fused",
                                         gpu_over(device::Transport::cuda_vmm));
  CHECK(bench(spec).control.verdict.passed());
}

TEST_CASE("a GPU that does not finish ends both processes soon, and the message says who was waited for") {
  // Usually the generator says what still goes on. A driver call that itself waits for the GPU keeps it from
  // that, and then the trainer's own limit ends the wait.
  const auto transport = GENERATE(device::Transport::cuda_ipc, device::Transport::cuda_vmm);
  run::BenchSpec spec = test::tiny_bench("handles=per-tensor", gpu_over(transport));
  spec.steps = 1;
  spec.timeout_s = 2;
  spec.fault = "stuck-receiver";
  const auto start = Clock::now();
  std::string reason;
  try {
    (void)bench(spec);
  } catch (const Error& error) {
    reason = error.what();
  }
  CAPTURE(reason);
  const bool by_generator = reason.find("did not finish in time") != std::string::npos;
  const bool by_trainer = reason.find("no message from the generator within 2.00 s") != std::string::npos;
  CHECK((by_generator || by_trainer));
  CHECK(std::chrono::duration<double>(Clock::now() - start).count() < 30);
}
