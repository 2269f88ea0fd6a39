// MXFP8 quantization against memcpy, over arrays far larger than any cache.
//
// bytes_per_second counts bytes read and bytes written: 2 + 1 + 1/32 per element, and 2 per byte of memcpy.
// `of_copy` is that rate over memcpy's with as many threads, which runs in turn with every iteration, so that
// a busy machine slows both; the median of all iterations.
//
// Target: whole_arrays at least 0.8 of memcpy in every rounding mode, with 1 and 2 threads.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "refit/base/digest.hpp"
#include "refit/base/thread_pool.hpp"
#include "refit/quant/mxfp8.hpp"

namespace {

using namespace refit;
using namespace refit::quant;

constexpr std::size_t elements = std::size_t{1} << 29;  // 1 GiB of BF16
constexpr std::size_t source_bytes = elements * sizeof(std::uint16_t);

/// Page-aligned, as exported memory is, and written once, so that no page is the shared zero page.
std::span<std::uint8_t> make_array(std::size_t bytes) {
  auto* data = static_cast<std::uint8_t*>(std::aligned_alloc(4096, bytes));
  if (data == nullptr) throw std::bad_alloc();
  std::memset(data, 0xA5, bytes);
  return {data, bytes};
}

/// Weights as they are: about normal with a deviation of 0.02. The sum of four 16-bit numbers is normal
/// enough, and 2^20 of them, repeated, are cheap enough.
void fill_with_weights(std::span<std::uint16_t> words) {
  constexpr std::size_t period = std::size_t{1} << 20;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i >= period) {
      std::memcpy(words.data() + i, words.data(), std::min(i, words.size() - i) * sizeof(std::uint16_t));
      i += std::min(i, words.size() - i) - 1;
      continue;
    }
    const std::uint64_t random = mix64(i + 1);
    float sum = -2.0f * 65535.0f;
    for (int part = 0; part < 64; part += 16) sum += static_cast<float>(random >> part & 0xFFFF);
    words[i] = bf16_from_float(sum * (0.02f * 1.732f / 65535.0f));
  }
}

/// They live until the process ends. What memcpy writes is what the quantizer writes too.
struct Arrays {
  Arrays() { fill_with_weights(words); }

  std::span<std::uint8_t> source = make_array(source_bytes);
  std::span<std::uint8_t> copy = make_array(source_bytes);
  std::span<std::uint8_t> scales = make_array(elements / kBlock);
  std::span<std::uint16_t> words{reinterpret_cast<std::uint16_t*>(source.data()), elements};
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

/// One piece of the arrays for each thread.
void in_pieces(ThreadPool& pool, std::size_t count,
               const std::function<void(std::size_t, std::size_t)>& body) {
  pool.for_range(count, count / pool.threads(), body);
}

/// Runs `body`, which reads and writes `moved` bytes together, in turn with a copy by as many threads.
void measure(benchmark::State& state, std::size_t moved, const std::function<void(ThreadPool&)>& body) {
  const Arrays& a = arrays();
  ThreadPool pool(static_cast<unsigned>(state.range(0)));
  const auto copy = [&] {
    in_pieces(pool, source_bytes, [&](std::size_t begin, std::size_t end) {
      std::memcpy(a.copy.data() + begin, a.source.data() + begin, end - begin);
    });
  };
  std::vector<double> ratios;
  for (auto _ : state) {
    const double copy_s = seconds_of(copy);
    const double seconds = seconds_of([&] { body(pool); });
    state.SetIterationTime(seconds);
    ratios.push_back((static_cast<double>(moved) / seconds) / (2.0 * source_bytes / copy_s));
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(moved) * state.iterations());
  std::ranges::nth_element(ratios, ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2));
  state.counters["of_copy"] = ratios[ratios.size() / 2];
}

constexpr std::size_t quantize_moves = source_bytes + elements + elements / kBlock;

void memcpy_again(benchmark::State& state) {
  const Arrays& a = arrays();
  measure(state, 2 * source_bytes, [&](ThreadPool& pool) {
    in_pieces(pool, source_bytes, [&](std::size_t begin, std::size_t end) {
      std::memcpy(a.copy.data() + begin, a.source.data() + begin, end - begin);
    });
  });
}

void whole_arrays(benchmark::State& state, Rounding rounding) {
  const Arrays& a = arrays();
  state.SetLabel(std::string(active_target()));
  measure(state, quantize_moves, [&](ThreadPool& pool) {
    in_pieces(pool, elements, [&](std::size_t begin, std::size_t end) {
      quantize_blocks(a.words.subspan(begin, end - begin), {rounding, ZeroScale::one},
                      a.copy.subspan(begin, end - begin),
                      a.scales.subspan(begin / kBlock, (end - begin) / kBlock));
    });
  });
}

/// Rows of `k` elements in batches, written in another order, as the engines' layouts want them.
void separate_rows(benchmark::State& state) {
  const Arrays& a = arrays();
  const auto k = static_cast<std::size_t>(state.range(1));
  const auto batch = static_cast<std::size_t>(state.range(2));
  const std::size_t batches = elements / k / batch;
  state.SetLabel(std::string(active_target()));
  measure(state, batches * batch * (3 * k + k / kBlock), [&](ThreadPool& pool) {
    in_pieces(pool, batches, [&](std::size_t begin, std::size_t end) {
      std::vector<Row> rows(batch);
      for (std::size_t b = begin; b < end; ++b) {
        for (std::size_t r = 0; r < batch; ++r) {
          const std::size_t from = b * batch + r;
          const std::size_t to = b * batch + (r * 5) % batch;  // batch is a power of two
          rows[r] = {a.words.data() + from * k, a.copy.data() + to * k, a.scales.data() + to * k / kBlock};
        }
        quantize_rows(rows, k, {});
      }
    });
  });
}

void look_for_non_finite(benchmark::State& state) {
  const Arrays& a = arrays();
  measure(state, source_bytes, [&](ThreadPool& pool) {
    in_pieces(pool, elements, [&](std::size_t begin, std::size_t end) {
      benchmark::DoNotOptimize(find_non_finite(a.words.subspan(begin, end - begin)));
    });
  });
}

void one_and_two_threads(benchmark::internal::Benchmark* b) {
  b->ArgName("threads")->Arg(1)->Arg(2)->Iterations(15)->UseManualTime()->Unit(benchmark::kMillisecond);
}

BENCHMARK(memcpy_again)->Apply(one_and_two_threads);
BENCHMARK_CAPTURE(whole_arrays, flashinfer, Rounding::flashinfer)->Apply(one_and_two_threads);
BENCHMARK_CAPTURE(whole_arrays, flashinfer_cuda, Rounding::flashinfer_cuda)->Apply(one_and_two_threads);
BENCHMARK_CAPTURE(whole_arrays, torchao_rceil, Rounding::torchao_rceil)->Apply(one_and_two_threads);
BENCHMARK_CAPTURE(whole_arrays, torchao_floor, Rounding::torchao_floor)->Apply(one_and_two_threads);
BENCHMARK_CAPTURE(whole_arrays, torchao_even, Rounding::torchao_even)->Apply(one_and_two_threads);
BENCHMARK_CAPTURE(whole_arrays, torchao_ceil, Rounding::torchao_ceil)->Apply(one_and_two_threads);
BENCHMARK_CAPTURE(whole_arrays, vllm_floor, Rounding::vllm_floor)->Apply(one_and_two_threads);
// k of w2 and w13 in Qwen3-30B-A3B and of DeepSeek-V3's w13; 256 rows of 2048 are 1 MiB of BF16.
BENCHMARK(separate_rows)
    ->ArgNames({"threads", "k", "rows"})
    ->ArgsProduct({{1, 2}, {768, 2048, 7168}, {256}})
    ->Iterations(15)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(look_for_non_finite)->Apply(one_and_two_threads);

}  // namespace
