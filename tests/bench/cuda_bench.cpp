// What the GPU backend does, over a device-to-device copy of as many bytes that is made in turn with it.
//
// Times are the device's own. `of_copy` is bytes read + bytes written a second over the copy's; every list is
// far larger than the L2 cache. Goals: quantize_alone 0.97, quantize_permute_swizzle 0.95. Without a GPU it
// says so and ends with 77.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include <memory>
#include <string>
#include <vector>

#include "refit/cuda/backend.hpp"
#include "refit/device/backend.hpp"
#include "refit/model/inventory.hpp"
#include "refit/plan/plan.hpp"

namespace {

using namespace refit;

device::Choice choice() {
  return {device::Kind::cuda, device::Transport::cuda_ipc, 1, 0};
}

device::Backend& gpu() {
  static const std::unique_ptr<device::Backend> backend = cuda::make_backend(choice());
  return *backend;
}

/// Qwen3-30B-A3B, or the same with other expert widths.
std::string config_with(unsigned hidden, unsigned inner, unsigned experts, unsigned layers) {
  return fmt::format(
      R"({{"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": {},
    "num_hidden_layers": {}, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
    "intermediate_size": 6144, "moe_intermediate_size": {}, "num_experts": {}, "num_experts_per_tok": 8,
    "vocab_size": 4096, "tie_word_embeddings": false, "torch_dtype": "bfloat16"}})",
      hidden, layers, inner, experts);
}

plan::Plan plan_of(const std::string& config, plan::MoeLayout layout) {
  plan::Request request;
  request.model = model::parse_inventory(config, "the bench's config");
  request.recipe.kind = model::RecipeKind::routed_experts;
  request.moe_layout = layout;
  return plan::build(request);
}

constexpr std::uint64_t kCopyBytes = 8ull << 30;

double device_seconds(const char* name) {
  for (const device::StageTime& time : gpu().stage_times()) {
    if (time.name == name) return time.seconds;
  }
  return 0;
}

template <typename Body>
double timed(Body body) {
  gpu().profile(true);
  gpu().stage("body");
  body();
  gpu().stage({});
  const double seconds = device_seconds("body");
  gpu().profile(false);
  return seconds;
}

/// Runs `body`, which moves `moved` bytes, in turn with a copy.
template <typename Body>
void measure(benchmark::State& state, std::uint64_t moved, Body body) {
  const auto from = gpu().scratch(kCopyBytes, "the copy's source"),
             to = gpu().scratch(kCopyBytes, "its target");
  gpu().fill(from->bytes(), std::byte{0x3C});
  body();  // once unmeasured
  std::vector<double> rates;
  for (auto _ : state) {
    const double copy_s = timed([&] { gpu().copy(to->bytes().data(), from->bytes().data(), kCopyBytes); });
    const double body_s = timed(body);
    state.SetIterationTime(body_s);
    rates.push_back(static_cast<double>(moved) / body_s * copy_s / (2.0 * static_cast<double>(kCopyBytes)));
  }
  std::nth_element(rates.begin(), rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2), rates.end());
  state.counters["of_copy"] = rates[rates.size() / 2];
  state.counters["GB"] = static_cast<double>(moved) * 1e-9;
}

struct Arena {
  plan::Plan plan;
  std::unique_ptr<device::Memory> sources, destinations;

  explicit Arena(plan::Plan p) : plan(std::move(p)) {
    sources = gpu().scratch(plan.source_arena_bytes, "the weights");
    destinations = gpu().scratch(plan.destination_arena_bytes, "the parameters");
    gpu().fill_weights(device::weight_boxes(plan, sources->bytes()), 1);
  }
  /// The quantized segments; `moved` becomes what they move.
  [[nodiscard]] std::vector<device::Task> quantize_tasks(std::uint64_t& moved) const {
    std::vector<device::Task> tasks;
    moved = 0;
    for (std::uint32_t s = 0; s < plan.segments.size(); ++s) {
      const plan::Segment& segment = plan.segments[s];
      if (segment.op != plan::Op::quantize) continue;
      tasks.push_back(
          device::task_of(plan, s, 0, segment.rows, sources->bytes().data(), destinations->bytes().data()));
      moved += segment.rows * (segment.cols * 3 + segment.cols / 32);
    }
    return tasks;
  }
};

void run_plan(benchmark::State& state, const std::string& config, plan::MoeLayout layout,
              quant::Rounding rounding) {
  const Arena arena(plan_of(config, layout));
  std::uint64_t moved = 0;
  std::vector<device::Task> tasks = arena.quantize_tasks(moved);
  for (device::Task& task : tasks) task.options.rounding = rounding;
  const auto program = gpu().prepare(tasks);
  gpu().finish(Deadline::after(std::chrono::seconds(60)));
  measure(state, moved, [&] { gpu().run(*program); });
  state.counters["tensors"] = static_cast<double>(tasks.size());
}

const std::string& qwen3_30b() {
  static const std::string config = config_with(2048, 768, 128, 48);
  return config;
}

void quantize_alone(benchmark::State& state, quant::Rounding rounding) {
  run_plan(state, qwen3_30b(), plan::MoeLayout::checkpoint, rounding);
}
void quantize_permute_swizzle(benchmark::State& state, quant::Rounding rounding) {
  run_plan(state, qwen3_30b(), plan::MoeLayout::flashinfer_trtllm, rounding);
}
/// K = 2176 and 320: no multiple of 256, scale columns that do not divide by 4.
void odd_widths(benchmark::State& state, plan::MoeLayout layout) {
  run_plan(state, config_with(2176, 320, 128, 16), layout, quant::Rounding::flashinfer);
}

void shuffle_in_place(benchmark::State& state, std::uint64_t rows, std::uint64_t row_bytes) {
  constexpr std::uint64_t kMatrices = 4096;
  const auto data = gpu().scratch(kMatrices * rows * row_bytes, "experts");
  std::vector<std::uint32_t> map(rows);
  for (std::uint32_t r = 0; r < rows; ++r)  // the inverse of the 32-row shuffle
    map[r] = r / 32 * 32 + 8 * (r % 4) + r % 32 / 4;
  measure(state, 2 * kMatrices * rows * row_bytes, [&] {
    gpu().shuffle_in_place({data->bytes().data(), kMatrices, rows, row_bytes, &map});
  });
}

/// Reads alone move half of what a copy does.
void digest(benchmark::State& state) {
  const auto data = gpu().scratch(kCopyBytes, "bytes");
  std::vector<std::span<const std::byte>> ranges;
  for (std::uint64_t at = 0; at < kCopyBytes; at += 4 << 20)
    ranges.push_back(data->bytes().subspan(at, 4 << 20));
  measure(state, kCopyBytes, [&] { (void)gpu().checker().digests(ranges); });
}
void poison(benchmark::State& state) {
  const auto data = gpu().scratch(kCopyBytes, "bytes");
  const std::vector<verify::Extent> extents = {{"all", 0, kCopyBytes}};
  measure(state, kCopyBytes, [&] { gpu().checker().poison(extents, data->bytes(), std::byte{0x5A}); });
}
void check_in_place(benchmark::State& state) {
  const Arena arena(plan_of(config_with(2048, 768, 128, 16), plan::MoeLayout::flashinfer_trtllm));
  std::uint64_t moved = 0;
  const auto program = gpu().prepare(arena.quantize_tasks(moved));
  gpu().run(*program);
  gpu().finish(Deadline::after(std::chrono::seconds(60)));
  measure(state, arena.plan.source_bytes + arena.plan.destination_bytes, [&] {
    (void)gpu().checker().check_in_place(arena.plan, arena.sources->bytes(), arena.destinations->bytes(), {});
  });
}
void weights(benchmark::State& state, bool update) {
  const Arena arena(plan_of(config_with(2048, 768, 128, 16), plan::MoeLayout::checkpoint));
  measure(state, arena.plan.source_bytes * (update ? 2 : 1), [&] {
    if (update) {
      gpu().update_weights(device::weight_boxes(arena.plan, arena.sources->bytes()), 1, 1);
    } else {
      gpu().fill_weights(device::weight_boxes(arena.plan, arena.sources->bytes()), 1);
    }
  });
}

void usual(benchmark::internal::Benchmark* b) {
  b->Iterations(20)->UseManualTime()->Unit(benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(quantize_alone, flashinfer, quant::Rounding::flashinfer)->Apply(usual);
BENCHMARK_CAPTURE(quantize_alone, torchao_even, quant::Rounding::torchao_even)->Apply(usual);
BENCHMARK_CAPTURE(quantize_permute_swizzle, flashinfer, quant::Rounding::flashinfer)->Apply(usual);
BENCHMARK_CAPTURE(quantize_permute_swizzle, flashinfer_cuda, quant::Rounding::flashinfer_cuda)->Apply(usual);
BENCHMARK_CAPTURE(quantize_permute_swizzle, torchao_rceil, quant::Rounding::torchao_rceil)->Apply(usual);
BENCHMARK_CAPTURE(quantize_permute_swizzle, vllm_floor, quant::Rounding::vllm_floor)->Apply(usual);
BENCHMARK_CAPTURE(odd_widths, checkpoint, plan::MoeLayout::checkpoint)->Apply(usual);
BENCHMARK_CAPTURE(odd_widths, flashinfer_trtllm, plan::MoeLayout::flashinfer_trtllm)->Apply(usual);
BENCHMARK_CAPTURE(shuffle_in_place, w13_1536x2048, 1536, 2048)->Apply(usual);
BENCHMARK_CAPTURE(shuffle_in_place, w2_2048x768, 2048, 768)->Apply(usual);
BENCHMARK(digest)->Apply(usual);
BENCHMARK(poison)->Apply(usual);
BENCHMARK(check_in_place)->Apply(usual);
BENCHMARK_CAPTURE(weights, fill, false)->Apply(usual);
BENCHMARK_CAPTURE(weights, update, true)->Apply(usual);

}  // namespace

int main(int argc, char** argv) {
  const auto support = refit::cuda::support(choice());
  if (!support.yes) {
    std::printf("skipped: %s\n", support.reason.c_str());
    return 77;
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
