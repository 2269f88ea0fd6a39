// Tasks on the GPU give the host's bytes: every mode, pattern, shape and alignment.
#include <numeric>

#include "cuda/both.hpp"
#include "refit/base/error.hpp"
#include "support/catch.hpp"
#include "support/column_tasks.hpp"
#include "support/quant_golden.hpp"
#include "support/row_quantizer.hpp"
#include "support/tiny_model.hpp"
#include "support/weight_boxes.hpp"

using namespace refit;
using test::Copied;
using test::gpu;
using test::host;
using ByteVector = std::vector<std::byte>;

namespace {

ByteVector as_bytes(const test::Words& words) {
  ByteVector bytes(words.size() * 2);
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

/// Offsets into a test's input and output buffers, which become addresses of each backend.
struct Placed {
  device::Task task;
  std::size_t from = 0, values = 0, scales = 0;
};

/// Runs the tasks on one backend over outputs that begin as `poison`.
ByteVector outputs_of(device::Backend& backend, const ByteVector& input, const ByteVector& poison,
                      const std::vector<Placed>& placed, bool prepared) {
  const Copied in(backend, input), out(backend, poison);
  std::vector<device::Task> tasks;
  for (const Placed& p : placed) {
    device::Task task = p.task;
    task.from = task.op == device::Op::zero ? nullptr : in.data() + p.from;
    const bool has_values = task.op != device::Op::scales && task.op != device::Op::zero;
    const bool has_scales = task.op != device::Op::copy && task.op != device::Op::round_bf16;
    task.values = has_values ? out.data() + p.values : nullptr;
    task.scales = has_scales ? out.data() + p.scales : nullptr;
    tasks.push_back(task);
  }
  if (prepared) {
    const auto program = backend.prepare(tasks);
    backend.run(*program);
    backend.finish(test::soon());
  } else {
    backend.run(tasks);
    backend.finish(test::soon());
  }
  return out.read();
}

std::string gpu_differs(const ByteVector& input, std::size_t output_bytes, const std::vector<Placed>& placed,
                        bool prepared = false) {
  const ByteVector poison = test::random_bytes(output_bytes, 99);
  return test::difference(outputs_of(gpu(), input, poison, placed, prepared),
                          outputs_of(host(), input, poison, placed, prepared));
}

const std::string kTensor = "a test's tensor";

Placed quantize_task(std::uint64_t rows, std::uint64_t cols, const quant::Options& options) {
  Placed p;
  p.task.op = device::Op::quantize;
  p.task.options = options;
  p.task.rows = rows;
  p.task.cols = cols;
  p.task.row_bytes = cols * 2;
  p.task.scale_layout = plan::ScaleLayout::row_major;
  p.task.tensor = &kTensor;
  p.values = 64;
  p.scales = 64 + (rows * cols + 255) / 256 * 256 + 256;
  return p;
}

std::uint64_t tiled_bytes(std::uint64_t rows, std::uint64_t scale_cols) {
  return (rows + 127) / 128 * 128 * ((scale_cols + 3) / 4 * 4);
}

std::vector<std::uint32_t> permutation(std::uint32_t rows, std::uint64_t seed) {
  std::vector<std::uint32_t> map(rows);
  std::iota(map.begin(), map.end(), 0u);
  std::mt19937_64 random(seed);
  std::shuffle(map.begin(), map.end(), random);
  return map;
}

}  // namespace

TEST_CASE("every BF16 pattern quantizes on the GPU as the scalar reference says, in every mode") {
  const quant::Rounding rounding = GENERATE(from_range(quant::kRoundings));
  const quant::ZeroScale zero_scale = GENERATE(quant::ZeroScale::keep, quant::ZeroScale::one);
  CAPTURE(quant::name_of(rounding), static_cast<int>(zero_scale));
  const quant::Options options{rounding, zero_scale, quant::NonFinite::as_producer};
  // Each pattern as a block's maximum, each as one element among others at every place, random bits.
  test::Words words;
  for (std::uint32_t pattern = 0; pattern < 65536; ++pattern) {
    const auto block = test::block_of_maximum(static_cast<std::uint16_t>(pattern));
    words.insert(words.end(), block.begin(), block.end());
  }
  std::mt19937_64 random(5);
  for (std::uint32_t pattern = 0; pattern < 65536; ++pattern) {
    const std::size_t first = words.size();
    const auto exponent = static_cast<std::uint16_t>(random() % 255 << 7);
    for (std::size_t i = 0; i < 32; ++i)
      words.push_back(static_cast<std::uint16_t>((random() & 0x807F) | exponent));
    words[first + pattern % 32] = static_cast<std::uint16_t>(pattern);
  }
  for (std::size_t i = 0; i < 65536 * 4; ++i) words.push_back(static_cast<std::uint16_t>(random()));
  const test::Quantized want = test::quantized_by_reference(words, options);

  const std::uint64_t cols = 4096, rows = words.size() / cols;
  Placed p = quantize_task(rows, cols, options);
  const ByteVector out =
      outputs_of(gpu(), as_bytes(words), ByteVector(p.scales + words.size() / 32), {p}, false);
  CHECK(std::memcmp(out.data() + p.values, want.q.data(), want.q.size()) == 0);
  CHECK(std::memcmp(out.data() + p.scales, want.scales.data(), want.scales.size()) == 0);

  // The same through the other kernel: rows permuted, scales in tiles.
  const std::vector<std::uint32_t> map = permutation(static_cast<std::uint32_t>(rows), 6);
  p.task.row_map = &map;
  p.task.scale_layout = plan::ScaleLayout::tiled_128x4;
  CHECK(gpu_differs(as_bytes(words), p.scales + tiled_bytes(rows, cols / 32), {p}) == "");
}

TEST_CASE("the GPU gives every producer's bytes in all golden cases") {
  const test::QuantGolden cases("/golden/quantize_cases.safetensors");
  for (const auto& [rounding, producer] : test::producers_of_modes()) {
    for (const char* name : {"normal", "heavy", "randbits", "threshold", "denormal", "special"}) {
      CAPTURE(producer, name);
      const test::Words input = cases.words(std::string(name) + ".input");
      const test::Quantized want = cases.expected(name, producer);
      const quant::Options options{rounding, quant::ZeroScale::keep, quant::NonFinite::as_producer};
      const Placed p = quantize_task(input.size() / 32, 32, options);
      const ByteVector out =
          outputs_of(gpu(), as_bytes(input), ByteVector(p.scales + input.size() / 32), {p}, false);
      CHECK(std::memcmp(out.data() + p.values, want.q.data(), want.q.size()) == 0);
      CHECK(std::memcmp(out.data() + p.scales, want.scales.data(), want.scales.size()) == 0);
    }
  }
}

TEST_CASE("quantized rows of every shape land where the host puts them, and nothing beside them changes") {
  const bool mapped = GENERATE(false, true);
  const bool tiled = GENERATE(false, true);
  const std::uint64_t cols = GENERATE(32, 64, 96, 160, 192, 256, 288, 768, 2048);
  const std::uint64_t rows = GENERATE(1, 31, 32, 33, 127, 128, 129, 300);
  // 0: aligned; 2: the source lies on an odd element, outputs on odd bytes.
  const std::size_t shift = GENERATE(0, 2);
  CAPTURE(mapped, tiled, cols, rows, shift);
  const std::vector<std::uint32_t> map = permutation(static_cast<std::uint32_t>(rows), rows * cols);
  Placed p = quantize_task(rows, cols, {});
  p.from = shift;
  p.values += shift / 2;
  p.scales += shift / 2 * 3;
  if (mapped) p.task.row_map = &map;
  if (tiled) p.task.scale_layout = plan::ScaleLayout::tiled_128x4;
  ByteVector input(shift);
  const ByteVector weights = test::random_weights(rows * cols, rows + cols);
  input.insert(input.end(), weights.begin(), weights.end());
  const std::size_t bytes = p.scales + tiled_bytes(rows, cols / 32) + 512;
  CHECK(gpu_differs(input, bytes, {p}) == "");
}

TEST_CASE("parts of one matrix, in any order and with gaps, are put together as the host does it") {
  const std::uint64_t cols = GENERATE(64, 256, 2048);
  const bool all = GENERATE(true, false);
  CAPTURE(cols, all);
  constexpr std::uint32_t kRows = 384;
  const std::vector<std::uint32_t> map = permutation(kRows, 3);
  std::vector<Placed> placed;
  std::size_t from = 0;
  for (const std::uint64_t first : {192u, 0u, 100u}) {
    const std::uint64_t rows = first == 192 ? 192 : first == 0 ? 100 : 92;
    Placed p = quantize_task(rows, cols, {});
    p.task.row_begin = first;
    p.task.row_map = &map;
    p.task.scale_layout = plan::ScaleLayout::tiled_128x4;
    p.values = 0;
    p.scales = kRows * cols + 256;
    p.from = from;
    from += rows * cols * 2;
    if (all || first != 100) placed.push_back(p);
  }
  const std::size_t bytes = kRows * cols + 256 + tiled_bytes(kRows, cols / 32) + 64;
  CHECK(gpu_differs(test::random_weights(kRows * cols, 8), bytes, placed) == "");
  CHECK(gpu_differs(test::random_weights(kRows * cols, 9), bytes, placed, true) == "");
}

TEST_CASE("rows are copied as they are, mapped or not, at every size and alignment") {
  const bool mapped = GENERATE(false, true);
  const std::uint64_t row_bytes = GENERATE(1, 2, 15, 16, 17, 64, 100, 4096, 70000);
  const std::uint64_t rows = GENERATE(1, 2, 33, 129);
  const std::size_t shift = GENERATE(0, 1, 4, 7);
  CAPTURE(mapped, row_bytes, rows, shift);
  const std::vector<std::uint32_t> map = permutation(static_cast<std::uint32_t>(rows), row_bytes);
  Placed p;
  p.task.rows = rows;
  p.task.cols = p.task.row_bytes = row_bytes;
  if (mapped) p.task.row_map = &map;
  p.from = shift;
  p.values = 32 + shift * 3;
  CHECK(gpu_differs(test::random_bytes(rows * row_bytes + 16, 4), rows * row_bytes + 128, {p}) == "");
}

TEST_CASE("scales are laid out, padding is zeroed, an FP32 bias is rounded through BF16") {
  const std::uint64_t scale_cols = GENERATE(1, 3, 4, 6, 24, 64);
  const std::uint64_t rows = GENERATE(1, 100, 128, 256, 300);
  const bool tiled = GENERATE(false, true);
  const bool mapped = GENERATE(false, true);
  CAPTURE(scale_cols, rows, tiled, mapped);
  const std::vector<std::uint32_t> map = permutation(static_cast<std::uint32_t>(rows), scale_cols);
  Placed scales;
  scales.task.op = device::Op::scales;
  scales.task.rows = rows;
  scales.task.cols = scales.task.row_bytes = scale_cols;
  scales.task.scale_layout = tiled ? plan::ScaleLayout::tiled_128x4 : plan::ScaleLayout::row_major;
  if (mapped) scales.task.row_map = &map;
  scales.scales = 512;
  Placed zero = scales;
  zero.task.op = device::Op::zero;
  zero.task.row_map = nullptr;
  zero.task.row_begin = rows;
  zero.task.rows = tiled ? (128 - rows % 128) % 128 : 2;
  Placed bias;
  bias.task.op = device::Op::round_bf16;
  bias.task.rows = 1;
  bias.task.cols = 37;
  bias.task.row_bytes = 37 * 4;
  bias.values = 16;
  bias.from = 8;
  const std::size_t bytes = 512 + std::max(tiled_bytes(rows, scale_cols), (rows + 2) * scale_cols) + 64;
  CHECK(gpu_differs(test::random_bytes(std::max<std::size_t>(rows * scale_cols, 256), 12), bytes,
                    {scales, zero, bias}) == "");
}

TEST_CASE("a whole plan in one launch gives the host's parameters, in every rounding mode") {
  const quant::Rounding rounding = GENERATE(from_range(quant::kRoundings));
  CAPTURE(quant::name_of(rounding));
  const plan::Plan plan = test::tiny_plan(rounding, quant::ZeroScale::one);
  const auto parameters_on = [&](device::Backend& backend) {
    const auto sources = backend.allocate(plan.source_arena_bytes, "sources");
    backend.fill(sources->bytes(), std::byte{0});
    backend.fill_weights(device::weight_boxes(plan, sources->bytes()), 3);
    for (std::uint64_t step = 1; step <= 3; ++step)
      backend.update_weights(device::weight_boxes(plan, sources->bytes()), 3, step);
    const Copied parameters(backend, test::random_bytes(plan.destination_arena_bytes, 1));
    backend.run(test::all_tasks(plan, sources->bytes().data(), parameters.data()));
    backend.finish(test::soon());
    ByteVector weights(plan.source_arena_bytes);
    backend.read(weights, sources->bytes().data());
    return std::pair(weights, parameters.read());
  };
  const auto [gpu_weights, gpu_parameters] = parameters_on(gpu());
  const auto [host_weights, host_parameters] = parameters_on(host());
  CHECK(test::difference(gpu_weights, host_weights) == "");
  CHECK(test::difference(gpu_parameters, host_parameters) == "");
}

TEST_CASE("a shuffle in place gives the host's rows") {
  const auto [rows, row_bytes] = GENERATE(table<std::uint64_t, std::uint64_t>({{128, 64},
                                                                               {384, 256},
                                                                               {1536, 2048},
                                                                               {2048, 768},
                                                                               {128, 17},
                                                                               {256, 100},
                                                                               {9000, 48},
                                                                               {20000, 16},
                                                                               {1, 5}}));
  CAPTURE(rows, row_bytes);
  constexpr std::uint64_t kMatrices = 3;
  const std::vector<std::uint32_t> map = permutation(static_cast<std::uint32_t>(rows), row_bytes);
  const ByteVector before = test::random_bytes(kMatrices * rows * row_bytes + 32, 2);
  const auto shuffled_on = [&](device::Backend& backend) {
    const Copied data(backend, before);
    backend.shuffle_in_place({data.data() + 16, kMatrices, rows, row_bytes, &map});
    backend.finish(test::soon());
    return data.read();
  };
  CHECK(test::difference(shuffled_on(gpu()), shuffled_on(host())) == "");
}

TEST_CASE("the first infinite or NaN element is named, and the next launch is clean again") {
  const bool tiled = GENERATE(false, true);
  constexpr std::uint64_t kRows = 256, kCols = 288;
  const std::vector<std::uint32_t> map = permutation(kRows, 1);
  ByteVector input = test::random_weights(2 * kRows * kCols, 7);
  const std::uint16_t infinite = 0xFF80, nan = 0x7FC0;
  std::memcpy(input.data() + (kRows * kCols + 100 * kCols + 287) * 2, &infinite, 2);
  std::memcpy(input.data() + (kRows * kCols + 101 * kCols) * 2, &nan, 2);
  const Copied in(gpu(), input), out(gpu(), ByteVector(2 * kRows * kCols + 2 * tiled_bytes(kRows, 9)));
  std::vector<device::Task> tasks;
  for (std::size_t t = 0; t < 2; ++t) {
    device::Task task = quantize_task(kRows, kCols, {}).task;
    task.from = in.data() + t * kRows * kCols * 2;
    task.values = out.data() + t * kRows * kCols;
    task.scales = out.data() + 2 * kRows * kCols + t * tiled_bytes(kRows, 9);
    task.first_row = 1000;
    if (tiled) {
      task.row_map = &map;
      task.scale_layout = plan::ScaleLayout::tiled_128x4;
    }
    tasks.push_back(task);
  }
  gpu().run(tasks);
  try {
    gpu().finish(test::soon());
    FAIL("an infinite weight passed");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    CHECK(std::string(error.what()).find("tensor 'a test's tensor' holds -inf at [1100, 287]") !=
          std::string::npos);
  }
  gpu().run(std::span(tasks).first(1));
  CHECK_NOTHROW(gpu().finish(test::soon()));
  for (device::Task& task : tasks) task.options.non_finite = quant::NonFinite::as_producer;
  gpu().run(tasks);
  CHECK_NOTHROW(gpu().finish(test::soon()));
}

TEST_CASE("host rows quantized by the GPU are what the quantizer gives") {
  device::RowQuantizer quantizer(cuda::make_backend({device::Kind::cuda, device::Transport::cuda_ipc, 1, 0}));
  CHECK(quantizer.device() == gpu().describe().name);
  test::check_row_quantizer(quantizer);
}

TEST_CASE("column pieces of a task give the host's bytes on the GPU") {
  const std::vector<std::uint32_t> map = permutation(300, 4);
  std::uint64_t seed = 0;
  for (const test::WholeTask& whole : test::whole_tasks(map, kTensor)) {
    for (const std::size_t shift : {0, 0, 4, 3}) {
      const std::vector<device::Task> pieces = test::column_pieces(whole, ++seed);
      const std::size_t scales_at =
          64 + (map.size() * whole.task.cols * whole.values_size + 255) / 256 * 256 + 256;
      std::vector<Placed> placed;
      for (const device::Task& piece : pieces) {
        // Elements of BF16 and FP32 lie on their own boundaries.
        const std::size_t aligned = shift / whole.from_size * whole.from_size;
        placed.push_back(
            {piece, aligned + piece.to_col * whole.from_size, 64 + shift / 4 * 4, scales_at + shift});
      }
      CAPTURE(static_cast<int>(whole.task.op), whole.task.cols, whole.task.row_map != nullptr,
              static_cast<int>(whole.task.scale_layout), shift, pieces.size());
      CHECK(gpu_differs(test::random_weights(map.size() * whole.task.cols * 2 + 16, seed),
                        scales_at + 2 * map.size() * whole.task.cols + (1 << 18), placed) == "");
    }
  }
}

TEST_CASE("boxes of weights are the host's on the GPU") {
  for (const test::BoxCase& box : test::weight_box_cases()) {
    const auto made_by = [&](device::Backend& backend) {
      const Copied memory(backend, ByteVector(box.bytes(), std::byte{0xAB}));
      const device::WeightBox where = box.in(memory.data());
      backend.fill_weights({&where, 1}, 5);
      for (std::uint64_t step = 1; step <= 2; ++step) backend.update_weights({&where, 1}, 5, step);
      backend.finish(test::soon());
      return memory.read();
    };
    CAPTURE(name_of(box.tensor.dtype), box.row, box.rows, box.col, box.cols, box.pitch, box.offset);
    CHECK(test::difference(made_by(gpu()), made_by(host())) == "");
  }
}
