// Row gather and 128x4 scale tiling against memcpy of as many bytes, over arrays far larger than any cache.
//
// bytes_per_second counts bytes read and bytes written. `of_copy` is that rate over memcpy's, which runs in
// turn with every iteration, so that a busy machine slows both.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>

#include "refit/layout/moe_shuffle.hpp"
#include "refit/layout/scale_128x4.hpp"

namespace {

using namespace refit::layout;

constexpr std::uint64_t array_bytes = std::uint64_t{512} << 20;

/// Page-aligned, as exported memory is, and written once, so that no page is the shared zero page.
std::span<std::uint8_t> make_array(std::uint8_t value) {
  static_assert(array_bytes % 4096 == 0);
  auto* data = static_cast<std::uint8_t*>(std::aligned_alloc(4096, array_bytes));
  if (data == nullptr) throw std::bad_alloc();
  std::memset(data, value, array_bytes);
  return {data, array_bytes};
}

/// Source and destination of every benchmark; they live until the process ends.
struct Arrays {
  std::span<std::uint8_t> in = make_array(0x5A);
  std::span<std::uint8_t> out = make_array(0xA5);
};

const Arrays& arrays() {
  static const Arrays instance;
  return instance;
}

template <class Body>
double seconds_of(Body body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  benchmark::ClobberMemory();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Runs `body`, which reads and writes `moved` bytes together, in turn with a copy that moves as many.
template <class Body>
void measure(benchmark::State& state, std::uint64_t moved, Body body) {
  const Arrays& whole = arrays();
  double copy_s = 0, body_s = 0;
  for (auto _ : state) {
    copy_s += seconds_of([&] { std::memcpy(whole.out.data(), whole.in.data(), moved / 2); });
    const double seconds = seconds_of(body);
    state.SetIterationTime(seconds);
    body_s += seconds;
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(moved) * state.iterations());
  state.counters["of_copy"] = copy_s / body_s;
}

void gather_rows(benchmark::State& state) {
  const Arrays& whole = arrays();
  const auto row_bytes = static_cast<std::uint64_t>(state.range(0));
  const auto rows = static_cast<std::uint32_t>(state.range(1));
  const ExpertRows what = {.experts = array_bytes / (rows * row_bytes), .rows = rows, .row_bytes = row_bytes};
  const std::uint64_t bytes = what.experts * rows * row_bytes;
  const SourceRows order = trtllm_w13_rows(rows, true);
  measure(state, 2 * bytes, [&, from = whole.in.first(bytes), to = whole.out.first(bytes)] {
    gather_rows_batched(from, what, order, to);
  });
}

/// As many rows x cols matrices as fit, each tiled (or untiled) apart.
template <bool untile>
void scales(benchmark::State& state) {
  const Arrays& whole = arrays();
  const auto rows = static_cast<std::uint64_t>(state.range(0));
  const auto cols = static_cast<std::uint64_t>(state.range(1));
  const std::uint64_t plain = rows * cols;
  const std::uint64_t tiled = scale_128x4_bytes(rows, cols);
  const std::uint64_t matrices = array_bytes / tiled;
  measure(state, matrices * (plain + tiled), [&, from = whole.in, to = whole.out] {
    for (std::uint64_t m = 0; m < matrices; ++m) {
      if constexpr (untile) {
        untile_scales_128x4(from.subspan(m * tiled, tiled), rows, cols, to.subspan(m * plain, plain));
      } else {
        tile_scales_128x4(from.subspan(m * plain, plain), rows, cols, to.subspan(m * tiled, tiled));
      }
    }
  });
}

// Row bytes of w2 and w13 in Qwen3-30B-A3B (768, 2048), Qwen3-235B-A22B (1536, 4096) and DeepSeek-V3 (7168).
BENCHMARK(gather_rows)
    ->ArgNames({"row_bytes", "rows"})
    ->Args({768, 2048})
    ->Args({1536, 4096})
    ->Args({2048, 1536})
    ->Args({4096, 3072})
    ->Args({7168, 4096})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
// Scales of w13 and w2 in Qwen3-30B-A3B, and a shape with padding in both directions.
BENCHMARK(scales<false>)
    ->Name("tile_scales")
    ->ArgNames({"rows", "cols"})
    ->Args({1536, 64})
    ->Args({2048, 24})
    ->Args({1930, 62})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(scales<true>)
    ->Name("untile_scales")
    ->ArgNames({"rows", "cols"})
    ->Args({1536, 64})
    ->Args({2048, 24})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
