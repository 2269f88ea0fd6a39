// The MXFP8 quantizer: the scalar reference against every producer's bytes, the fast path against the
// reference.
#include <fmt/format.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "refit/quant/mxfp8.hpp"
#include "support/catch.hpp"
#include "support/error_of.hpp"
#include "support/quant_golden.hpp"
#include "support/sha256.hpp"

namespace {

using namespace refit;
using namespace refit::quant;
using namespace refit::test;
using View = std::span<const std::uint8_t>;

constexpr std::array zero_scales = {ZeroScale::keep, ZeroScale::one};
const std::vector<std::string> cases = {"normal", "heavy", "randbits", "threshold", "denormal", "special"};

const QuantGolden& golden_cases() {
  static const QuantGolden file("/golden/quantize_cases.safetensors");
  return file;
}

const QuantGolden& golden_sweep() {
  static const QuantGolden file("/golden/quantize_sweep.safetensors");
  return file;
}

std::string difference(View got, View want, std::string_view what) {
  if (got.size() != want.size())
    return fmt::format("{}: {} bytes instead of {}", what, got.size(), want.size());
  const auto at = std::mismatch(got.begin(), got.end(), want.begin());
  if (at.first == got.end()) return "";
  return fmt::format("{} {} is {:#04x}, not {:#04x}", what, at.first - got.begin(), *at.first, *at.second);
}

/// "" when equal, else the first difference.
std::string difference(const Quantized& got, const Quantized& want) {
  const std::string scales = difference(got.scales, want.scales, "scale");
  return scales.empty() ? difference(got.q, want.q, "element") : scales;
}

std::string sha256_of(View bytes) {
  return sha256_hex(std::as_bytes(bytes));
}

bool is_finite(std::uint16_t bits) {
  return (bits & 0x7F80) != 0x7F80;
}

int magnitude(std::uint16_t bits) {
  return bits & 0x7FFF;
}

int amax(std::span<const std::uint16_t> block) {
  return magnitude(*std::ranges::max_element(block, {}, magnitude));
}

/// The README's condition under which producers without a mode agree with FlashInfer.
bool producers_agree(std::span<const std::uint16_t> block) {
  return std::ranges::all_of(block, is_finite) && amax(block) >= 0x0461;
}

/// The narrower one of FlashInfer's CUDA kernel: neither an element nor amax / 448 is subnormal.
bool cuda_agrees(std::span<const std::uint16_t> block) {
  return producers_agree(block) && amax(block) >= 0x04E0 &&
         std::ranges::none_of(
             block, [](std::uint16_t bits) { return magnitude(bits) > 0 && magnitude(bits) < 0x80; });
}

/// What a producer made of the sweep's elements, from the rows in which it differs from fi_cute_v0613.
Bytes sweep_elements(const std::string& producer) {
  Bytes q = golden_sweep().bytes("sweep.q.fi_cute_v0613");
  if (producer == "fi_cute_v0613") return q;
  const auto rows = golden_sweep().rows("sweep.diffrow." + producer);
  const Bytes elements = golden_sweep().bytes("sweep.diffq." + producer);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(elements.begin() + static_cast<std::ptrdiff_t>(i * kBlock), kBlock,
                q.begin() + static_cast<std::ptrdiff_t>(rows[i]) * static_cast<std::ptrdiff_t>(kBlock));
  }
  return q;
}

/// How many blocks fulfil `condition`, all of which must have the same bytes on both sides.
std::size_t count_agreeing(std::span<const std::uint16_t> input, const Quantized& got, const Quantized& want,
                           const std::function<bool(std::span<const std::uint16_t>)>& condition) {
  std::size_t count = 0;
  for (std::size_t block = 0; block < want.scales.size(); ++block) {
    const std::size_t at = block * kBlock;
    if (!condition(input.subspan(at, kBlock))) continue;
    ++count;
    CAPTURE(block);
    if (got.scales[block] != want.scales[block]) FAIL_CHECK("the scales differ");
    const auto is = View(got.q).subspan(at, kBlock);
    const auto should = View(want.q).subspan(at, kBlock);
    if (!std::ranges::equal(is, should)) FAIL_CHECK(difference(is, should, "element"));
  }
  return count;
}

std::string label(const Options& options) {
  return fmt::format("{}, zero scale {}", name_of(options.rounding),
                     options.zero_scale == ZeroScale::one ? 1 : 0);
}

void for_all_options(const std::function<void(const Options&)>& check) {
  for (const Rounding rounding : kRoundings) {
    for (const ZeroScale zero_scale : zero_scales) {
      const Options options = {rounding, zero_scale};
      const std::string mode = label(options);
      CAPTURE(mode);
      check(options);
    }
  }
}

/// Runs `check` on every instruction set of this CPU that the library was compiled for.
void on_all_targets(const std::function<void()>& check) {
  const auto all = hwy::SupportedTargets();
  for (auto left = all; left != 0; left &= left - 1) {
    hwy::SetSupportedTargetsForTest(left & -left);
    const std::string target(active_target());
    CAPTURE(target);
    check();
  }
  hwy::SetSupportedTargetsForTest(0);
}

/// Words with guards around them, at an offset from a 64-byte boundary.
template <typename T>
class Guarded {
 public:
  Guarded(std::size_t size, std::size_t offset) : size_(size), storage_(size + 2 * kGuard + offset, fill()) {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data() + kGuard);
    const std::size_t past = address % 64 / sizeof(T);
    begin_ = kGuard + (past == 0 ? 0 : 64 / sizeof(T) - past) + offset;
  }
  std::span<T> values() { return std::span(storage_).subspan(begin_, size_); }
  bool guards_intact() const {
    const auto guard = [](T value) { return value == fill(); };
    return std::all_of(storage_.begin(), storage_.begin() + static_cast<std::ptrdiff_t>(begin_), guard) &&
           std::all_of(storage_.begin() + static_cast<std::ptrdiff_t>(begin_ + size_), storage_.end(), guard);
  }

 private:
  static constexpr std::size_t kGuard = 256;
  static T fill() { return static_cast<T>(0xA5A5); }
  std::size_t size_;
  std::vector<T> storage_;
  std::size_t begin_;
};

std::uint16_t truncated_bf16(double value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16);
}

/// Weights as they are: normal, small, all finite.
Words normal_weights(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, 0.02);
  Words words(count);
  for (auto& word : words) word = truncated_bf16(normal(random));
  return words;
}

/// Blocks of every kind: bit patterns of the whole range, heavy tails, zeros, one outlier, now and then not
/// finite.
Words mixed_blocks(std::size_t blocks, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Words words(blocks * kBlock);
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::span out = std::span(words).subspan(block * kBlock, kBlock);
    const auto kind = random() % 8;
    const int scale = static_cast<int>(random() % 280) - 150;
    for (auto& word : out) {
      switch (kind) {
        case 0:
          word = static_cast<std::uint16_t>(random());
          break;
        case 1:
          word = static_cast<std::uint16_t>(random() & 0xBFFF);
          break;
        case 2:
          word = truncated_bf16(std::ldexp(normal(random), static_cast<int>(random() % 80) - 40));
          break;
        case 3:
          word = static_cast<std::uint16_t>(random() & 0x80FF);
          break;  // subnormal and just above
        case 4:
          word = static_cast<std::uint16_t>(random() & 0x8000);
          break;  // zeros
        default:
          word = truncated_bf16(std::ldexp(normal(random), scale));
          break;
      }
    }
    if (kind == 5) out[random() % kBlock] = truncated_bf16(std::ldexp(1.0, scale + 20));
    if (kind == 6 && random() % 16 == 0) out[random() % kBlock] = 0x7F80;
    if (kind == 7 && random() % 16 == 0) out[random() % kBlock] = 0xFFC0;
  }
  return words;
}

}  // namespace

TEST_CASE("Every rounding mode has the name of its producer and is found by it") {
  const std::vector<std::string> names = {"flashinfer",   "flashinfer-cuda", "torchao-rceil", "torchao-floor",
                                          "torchao-even", "torchao-ceil",    "vllm-floor"};
  REQUIRE(names.size() == kRoundings.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    CHECK(name_of(kRoundings[i]) == names[i]);
    CHECK(parse_rounding(names[i]) == kRoundings[i]);
  }
  for (const std::string_view unknown : {"", "Flashinfer", "flashinfer ", "flashinfer_cuda", "rceil"}) {
    CHECK(!parse_rounding(unknown).has_value());
  }
  CHECK(Options{}.rounding == Rounding::flashinfer);
  CHECK(Options{}.zero_scale == ZeroScale::keep);
}

TEST_CASE("E4M3 bytes have the values of the OCP format") {
  CHECK(e4m3_value(0x00) == 0.0f);
  CHECK(e4m3_value(0x01) == 0x1p-9f);
  CHECK(e4m3_value(0x07) == 7 * 0x1p-9f);
  CHECK(e4m3_value(0x08) == 0x1p-6f);
  CHECK(e4m3_value(0x38) == 1.0f);
  CHECK(e4m3_value(0x7E) == 448.0f);
  CHECK(std::isnan(e4m3_value(0x7F)));
  CHECK(std::isnan(e4m3_value(0xFF)));
  CHECK(std::signbit(e4m3_value(0x80)));
  for (int code = 0; code < 0x7F; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    CHECK(e4m3_value(static_cast<std::uint8_t>(byte | 0x80)) == -e4m3_value(byte));
    if (code > 0) CHECK(e4m3_value(byte) > e4m3_value(static_cast<std::uint8_t>(code - 1)));
  }
}

TEST_CASE("An MX value is its element times 2 to the scale minus 127") {
  CHECK(mx_value(0x38, 127) == 1.0);
  CHECK(mx_value(0xFE, 128) == -896.0);
  CHECK(mx_value(0x01, 0) == 0x1p-136);
  CHECK(mx_value(0x7E, 254) == 448 * 0x1p127);
  CHECK(std::isnan(mx_value(0x7F, 127)));
  CHECK(std::isnan(mx_value(0x38, 255)));
}

TEST_CASE("BF16 survives FP32 and comes back rounded to nearest even") {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const float value = bf16_value(pattern);
    if (std::isnan(value)) {
      CHECK(std::isnan(bf16_value(bf16_from_float(value))));
    } else if (bf16_from_float(value) != pattern) {
      FAIL_CHECK(fmt::format("{:#06x} becomes {:#06x}", pattern, bf16_from_float(value)));
    }
  }
  const auto rounded = [](std::uint32_t bits) { return bf16_from_float(std::bit_cast<float>(bits)); };
  CHECK(rounded(0x3F808000) == 0x3F80);  // a tie, to even
  CHECK(rounded(0x3F818000) == 0x3F82);
  CHECK(rounded(0x3F808001) == 0x3F81);
  CHECK(rounded(0xBF817FFF) == 0xBF81);
  CHECK(rounded(0x7F7F8000) == 0x7F80);  // to infinity
  CHECK(rounded(0x7F800001) == 0x7FC0);  // a NaN whose payload would vanish
  for (int k = 0; k < 8; ++k) {
    CHECK(bf16_value(bf16_from_float(3.0f + 0.0007f * static_cast<float>(k))) == 3.0f);  // report 22
  }
}

TEST_CASE("The reference gives every producer's bytes in all golden cases, non-finite blocks included") {
  for (const auto& [rounding, producer] : producers_of_modes()) {
    for (const std::string& name : cases) {
      CAPTURE(producer, name);
      const Words input = golden_cases().words(name + ".input");
      const Quantized want = golden_cases().expected(name, producer);
      CHECK(difference(quantized_by_reference(input, {rounding, ZeroScale::keep}), want) == "");
      CHECK(difference(quantized(input, {rounding, ZeroScale::keep}), want) == "");
    }
  }
}

TEST_CASE("The reference gives every producer's bytes on the golden sweep") {
  const Words input = sweep_input();
  const auto input_bytes = std::as_bytes(std::span(input));
  REQUIRE(sha256_hex(input_bytes) == golden_sweep().metadata("sweep.input_sha256"));
  const Words first = golden_sweep().words("sweep.input_first256");
  REQUIRE(std::equal(first.begin(), first.end(), input.begin()));
  const Json hashes = parse_json(golden_sweep().metadata("sweep.hashes"), "sweep.hashes");
  for (const auto& [rounding, producer] : producers_of_modes()) {
    CAPTURE(producer);
    const Quantized got = quantized_by_reference(input, {rounding, ZeroScale::keep});
    CHECK(difference(got.scales, golden_sweep().bytes("sweep.scale." + producer), "scale") == "");
    CHECK(sha256_of(got.scales) == hashes.at(producer).at("scale_sha256").get<std::string>());
    CHECK(sha256_of(got.q) == hashes.at(producer).at("q_sha256").get<std::string>());
    if (producer == "fi_cute_v0613" || golden_sweep().has("sweep.diffrow." + producer)) {
      CHECK(difference(got.q, sweep_elements(producer), "element") == "");
      continue;
    }
    const Bytes every_64th = golden_sweep().bytes("sweep.every64q." + producer);
    for (std::size_t i = 0; i < every_64th.size() / kBlock; ++i) {
      CAPTURE(i);
      const auto is = View(got.q).subspan(i * 64 * kBlock, kBlock);
      const auto should = View(every_64th).subspan(i * kBlock, kBlock);
      if (!std::ranges::equal(is, should)) FAIL_CHECK(difference(is, should, "element"));
    }
  }
}

TEST_CASE("Producers without a mode agree with FlashInfer where the golden README says so") {
  const Options options;
  const Words sweep = sweep_input();
  const Quantized sweep_got = quantized_by_reference(sweep, options);
  const auto check = [&](const std::string& producer, const auto& condition, std::size_t sweep_blocks) {
    CAPTURE(producer);
    const Quantized want = {sweep_elements(producer), golden_sweep().bytes("sweep.scale." + producer)};
    CHECK(count_agreeing(sweep, sweep_got, want, condition) == sweep_blocks);
    std::size_t compared = 0;
    for (const std::string& name : cases) {
      CAPTURE(name);
      const Words input = golden_cases().words(name + ".input");
      compared += count_agreeing(input, quantized_by_reference(input, options),
                                 golden_cases().expected(name, producer), condition);
    }
    CHECK(compared > 600);
  };
  // Of each magnitude one sign is in the sweep.
  for (const char* producer : {"fi_ref", "te_ref", "vllm_ceil", "fi_cute_head"}) {
    check(producer, producers_agree, 0x7F80 - 0x0461);
  }
  // Less the magnitudes up to 127 above one of the README's distances: there an element is subnormal.
  check("fi_cuda_head", cuda_agrees, 0x7F80 - 0x04E0 - 5 * 127 - 30);
}

TEST_CASE("Replacing scale byte 0 gives NeMo-RL's bytes") {
  for (const char* name : {"nemo2d", "nemo3d", "nemo_k32"}) {
    CAPTURE(name);
    const Words input = golden_cases().words(std::string(name) + ".input");
    const Quantized want = {golden_cases().bytes(std::string(name) + ".q"),
                            golden_cases().bytes(std::string(name) + ".scale")};
    const Options options = {Rounding::flashinfer, ZeroScale::one};
    CHECK(std::ranges::count(want.scales, 1) > 0);  // the case would prove nothing without
    CHECK(difference(quantized_by_reference(input, options), want) == "");
    CHECK(difference(quantized(input, options), want) == "");
  }
}

TEST_CASE("With byte 0 replaced no mode leaves a scale of 0 or a finite value that byte 0 had kept") {
  const Words input = sweep_input();
  for (const Rounding rounding : kRoundings) {
    const std::string mode(name_of(rounding));
    CAPTURE(mode);
    const Quantized kept = quantized_by_reference(input, {rounding, ZeroScale::keep});
    const Quantized one = quantized_by_reference(input, {rounding, ZeroScale::one});
    std::size_t replaced = 0;
    for (std::size_t i = 0; i < input.size(); ++i) {
      const std::uint8_t was = kept.scales[i / kBlock];
      const std::uint8_t is = one.scales[i / kBlock];
      const bool zero = was == 0;
      replaced += zero;
      const bool nan = (kept.q[i] & 0x7F) == 0x7F;
      const std::uint8_t element = zero && !nan ? kept.q[i] & 0x80 : kept.q[i];
      if (is != (zero ? 1 : was) || one.q[i] != element) FAIL_CHECK(fmt::format("element {}", i));
    }
    CHECK(replaced > 0);
  }
}

TEST_CASE(
    "The fast path equals the reference for every BF16 pattern as block maximum, on every instruction set") {
  Words input;
  for (std::uint32_t pattern = 0; pattern < 65536; ++pattern) {
    const auto block = block_of_maximum(static_cast<std::uint16_t>(pattern));
    input.insert(input.end(), block.begin(), block.end());
  }
  for_all_options([&](const Options& options) {
    const Quantized want = quantized_by_reference(input, options);
    on_all_targets([&] { CHECK(difference(quantized(input, options), want) == ""); });
  });
}

TEST_CASE("The fast path equals the reference for every pair of fraction and distance to the maximum") {
  // Block maxima of both kinds of fraction; every smaller magnitude appears beside each.
  Words input;
  for (const std::uint16_t maximum : Words{0x3F80, 0x3FE0, 0x3FE1, 0x3FF7, 0x3FF8, 0x3FFF}) {
    std::uint16_t bits = 0;
    while (bits <= maximum) {
      input.push_back(maximum);
      for (std::size_t i = 1; i < kBlock; ++i, ++bits) {
        const auto sign = static_cast<std::uint16_t>((bits * 0x9E37u >> 3 & 1u) << 15);
        input.push_back(static_cast<std::uint16_t>(std::min(bits, maximum) | sign));
      }
    }
  }
  for_all_options([&](const Options& options) {
    const Quantized want = quantized_by_reference(input, options);
    on_all_targets([&] { CHECK(difference(quantized(input, options), want) == ""); });
  });
}

TEST_CASE("The fast path equals the reference for blocks of every kind in any order") {
  const unsigned seed = GENERATE(1u, 2u, 3u);
  CAPTURE(seed);
  const Words input = mixed_blocks(20'000, seed);
  const bool finite = std::ranges::all_of(input, is_finite);
  for_all_options([&](const Options& options) {
    const Quantized want = quantized_by_reference(input, options);
    on_all_targets([&] {
      Quantized got = {Bytes(want.q.size()), Bytes(want.scales.size())};
      CHECK(quantize_blocks(input, options, got.q, got.scales) == finite);
      CHECK(difference(got, want) == "");
    });
  });
}

TEST_CASE("Any number of blocks at any alignment is quantized, and nothing beside it is touched") {
  // Around the group (4 or 8 blocks), the piece (256), four pieces, and the size from which the cache is
  // bypassed.
  for (const std::size_t blocks :
       {0, 1, 2, 3, 4, 5, 7, 8, 9, 31, 64, 65, 255, 257, 1023, 1024, 1025, 2048, 2057, 3079}) {
    const Words weights = blocks % 2 == 0 ? normal_weights(blocks * kBlock, 7) : mixed_blocks(blocks, 7);
    const Options options;
    const Quantized want = quantized_by_reference(weights, options);
    for (const std::size_t offset : {0, 1, 16, 31, 32}) {
      CAPTURE(blocks, offset);
      Guarded<std::uint16_t> in(weights.size(), offset);
      Guarded<std::uint8_t> q(weights.size(), offset);
      Guarded<std::uint8_t> scales(blocks, offset);
      std::ranges::copy(weights, in.values().begin());
      on_all_targets([&] {
        quantize_blocks(in.values(), options, q.values(), scales.values());
        CHECK(difference(q.values(), want.q, "element") == "");
        CHECK(difference(scales.values(), want.scales, "scale") == "");
        CHECK(q.guards_intact());
        CHECK(scales.guards_intact());
        std::ranges::fill(q.values(), std::uint8_t{0x5A});
        std::ranges::fill(scales.values(), std::uint8_t{0x5A});
      });
    }
  }
}

TEST_CASE("Rows that lie apart get the bytes of one call each, in whatever order they are written") {
  // k of Qwen3-30B-A3B and Nemotron-3-Nano experts, a single block, a row of more than one piece; counts
  // around four.
  for (const std::size_t k : {32, 96, 768, 1856, 2048, 8224}) {
    for (const std::size_t count : {0, 1, 3, 4, 5, 9, 40}) {
      CAPTURE(k, count);
      const Words weights =
          count % 2 == 0 ? normal_weights(count * k, 11) : mixed_blocks(count * k / kBlock, 11);
      const Options options = {Rounding::torchao_even, ZeroScale::one};
      const Quantized want = quantized_by_reference(weights, options);
      Guarded<std::uint8_t> q(count * k, 0);
      Guarded<std::uint8_t> scales(count * k / kBlock, 0);
      const auto stored = [&](std::size_t row) { return count - 1 - row; };
      std::vector<Row> rows;
      for (std::size_t row = 0; row < count; ++row) {
        rows.push_back({weights.data() + row * k, q.values().data() + stored(row) * k,
                        scales.values().data() + stored(row) * k / kBlock});
      }
      on_all_targets([&] {
        CHECK(quantize_rows(rows, k, options) == std::ranges::all_of(weights, is_finite));
        for (std::size_t row = 0; row < count; ++row) {
          const auto part = [k](View bytes, std::size_t at) { return bytes.subspan(at * k, k); };
          const auto scale_part = [k](View bytes, std::size_t at) {
            return bytes.subspan(at * k / 32, k / 32);
          };
          CHECK(difference(part(q.values(), stored(row)), part(want.q, row), "element") == "");
          CHECK(difference(scale_part(scales.values(), stored(row)), scale_part(want.scales, row), "scale") ==
                "");
        }
        CHECK(q.guards_intact());
        CHECK(scales.guards_intact());
        std::ranges::fill(q.values(), std::uint8_t{0x5A});
      });
    }
  }
}

TEST_CASE("Quantizing says whether everything was finite, wherever the one element that is not stands") {
  const Words weights = normal_weights(40 * kBlock + 64, 5);
  Quantized out;
  for (const std::uint16_t bad : Words{0x7F80, 0xFF80, 0x7FC0, 0xFFFF, 0x7F81}) {
    for (const std::size_t at : {std::size_t{0}, std::size_t{33}, std::size_t{640}, weights.size() - 1}) {
      CAPTURE(bad, at);
      Words input = weights;
      out = {Bytes(input.size()), Bytes(input.size() / kBlock)};
      for_all_options([&](const Options& options) {
        on_all_targets([&] {
          CHECK(quantize_blocks(input, options, out.q, out.scales));
          input[at] = bad;
          CHECK(!quantize_blocks(input, options, out.q, out.scales));
          input[at] = weights[at];
        });
      });
    }
  }
}

TEST_CASE("Tiny and largest finite values are finite") {
  for (const std::uint16_t bits :
       Words{0x0001, 0x8001, 0x007F, 0x0460, 0x0461, 0x0960, 0x0961, 0x7F77, 0x7F78, 0x7F7F}) {
    const Words input(8 * kBlock, bits);
    Quantized out = {Bytes(input.size()), Bytes(8)};
    for_all_options(
        [&](const Options& options) { CHECK(quantize_blocks(input, options, out.q, out.scales)); });
    CHECK(!find_non_finite(input).has_value());
  }
}

TEST_CASE("The first non-finite element is found at every place and size") {
  const Words weights = normal_weights(3 * 4096 + 77, 3);
  on_all_targets([&] {
    CHECK(!find_non_finite({}).has_value());
    CHECK(!find_non_finite(weights).has_value());
    Words input = weights;
    for (std::size_t at = 0; at < input.size(); at += at < 100 || at > 12'200 ? 1 : 97) {
      input[at] = at % 2 == 0 ? 0x7F80 : 0xFFC1;
      const auto tail = std::span(input).subspan(at);
      const bool found = find_non_finite(input) == at && find_non_finite(tail) == std::size_t{0} &&
                         !find_non_finite(std::span(input).first(at)).has_value();
      if (!found) FAIL_CHECK(fmt::format("element {}", at));
      input[at] = weights[at];
    }
    input[5000] = input[9000] = 0x7FFF;
    CHECK(find_non_finite(input) == std::size_t{5000});
  });
}

TEST_CASE("Sizes that do not belong together are refused before anything is written") {
  Words in(64);
  Bytes q(64, 7), scales(2, 7);
  const auto sizes = [&](std::size_t elements, std::size_t bytes, std::size_t count) {
    return [&, elements, bytes, count] {
      quantize_blocks(std::span(in).first(elements), {}, std::span(q).first(bytes),
                      std::span(scales).first(count));
    };
  };
  check_input_error(sizes(33, 33, 1), "33", "32");
  check_input_error(sizes(64, 63, 2), "64", "63");
  check_input_error(sizes(64, 64, 1), "64", "2 scales");
  const std::vector<Row> rows = {{in.data(), q.data(), scales.data()}};
  check_input_error([&] { quantize_rows(rows, 48, {}); }, "48", "32");
  CHECK(q == Bytes(64, 7));
  CHECK(scales == Bytes(2, 7));
}

TEST_CASE("Blocks at rounding boundaries get the scales and codes of the case table") {
  const QuantGolden file("/cases/st/mxfp8_scale_boundaries.safetensors");
  const Words blocks = file.words("blocks");
  struct Expected {
    std::uint8_t scale;
    std::array<std::uint8_t, 4> codes;
  };
  const std::vector<Expected> up = {
      {0, {0x00, 0x00, 0x00, 0x00}},   {127, {0x7E, 0x38, 0xB8, 0x30}}, {128, {0x76, 0x30, 0xB0, 0x28}},
      {128, {0x78, 0x70, 0xF0, 0x30}}, {128, {0x78, 0x70, 0xF0, 0x30}}, {119, {0x7E, 0x59, 0xD9, 0x70}},
      {120, {0x76, 0x51, 0xD1, 0x68}}, {127, {0xFE, 0xD8, 0x58, 0x5A}}, {127, {0x7E, 0x80, 0x00, 0x02}},
      {127, {0x7E, 0x01, 0x00, 0x80}}, {113, {0x00, 0x00, 0x00, 0x00}}};
  std::vector<Expected> down = up;
  down[2] = {127, {0x7E, 0x38, 0xB8, 0x30}};
  down[3] = {127, {0x7E, 0x78, 0xF8, 0x38}};
  down[6] = {119, {0x7E, 0x59, 0xD9, 0x70}};
  down[10].scale = 112;
  std::vector<Expected> even = down;  // it rounds 510 up to 512 first
  even[3] = up[3];

  const auto check = [&](Rounding rounding, const std::vector<Expected>& table, std::uint8_t last_code) {
    const std::string mode(name_of(rounding));
    const Quantized got = quantized(blocks, {rounding, ZeroScale::keep});
    REQUIRE(got.scales.size() == table.size());
    for (std::size_t row = 0; row < table.size(); ++row) {
      CAPTURE(mode, row);
      CHECK(got.scales[row] == table[row].scale);
      Bytes want(kBlock);
      std::ranges::copy(table[row].codes, want.begin());
      if (row == 10) want[31] = last_code;
      CHECK(difference(View(got.q).subspan(row * kBlock, kBlock), want, "column") == "");
    }
  };
  for (const Rounding rounding : {Rounding::flashinfer, Rounding::flashinfer_cuda, Rounding::torchao_rceil}) {
    check(rounding, up, 0x77);
  }
  check(Rounding::torchao_floor, down, 0x7E);
  check(Rounding::torchao_even, even, 0x7E);
  CHECK(quantized(file.words("k96_rows130"), {}).scales.size() == 130 * 3);
}

TEST_CASE("The rounding mode changes the bytes of exactly the rows that it should (report 66)") {
  const Words blocks = QuantGolden("/cases/st/mxfp8_scale_boundaries.safetensors").words("blocks");
  const Quantized up = quantized(blocks, {Rounding::flashinfer, ZeroScale::keep});
  const Quantized down = quantized(blocks, {Rounding::torchao_floor, ZeroScale::keep});
  std::vector<std::size_t> differ;
  for (std::size_t row = 0; row < up.scales.size(); ++row) {
    const auto part = [row](const Bytes& q) { return View(q).subspan(row * kBlock, kBlock); };
    if (up.scales[row] != down.scales[row] || !std::ranges::equal(part(up.q), part(down.q)))
      differ.push_back(row);
  }
  CHECK(differ == std::vector<std::size_t>{2, 3, 6, 10});
}

TEST_CASE("Zero blocks stay zero under a scale that the consumer takes (reports 58 and 59)") {
  // 256 x 256, one element 1.0 and three 128 x 128 quarters without any; and an expert that is all zero.
  Words weights(256 * 256);
  weights[5 * 256 + 7] = 0x3F80;
  for (const Words& input : {weights, Words(768 * 2048)}) {
    for (const Rounding rounding : kRoundings) {
      const std::string mode(name_of(rounding));
      CAPTURE(mode);
      const Quantized got = quantized(input, {rounding, ZeroScale::one});
      CHECK(std::ranges::count(got.scales, 0) == 0);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < input.size(); ++i) {
        wrong += mx_value(got.q[i], got.scales[i / kBlock]) != double{bf16_value(input[i])};
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("By default no finite block maximum saturates (report 65)") {
  const auto worst_error = [](Rounding rounding) {
    double worst = 0;
    for (int bits = 0x0980; bits < 0x7F80; ++bits) {
      const Words block(kBlock, static_cast<std::uint16_t>(bits));
      const Quantized got = quantized_by_reference(block, {rounding, ZeroScale::keep});
      const double value = bf16_value(block[0]);
      worst = std::max(worst, std::fabs(mx_value(got.q[0], got.scales[0]) - value) / value);
    }
    return worst;
  };
  CHECK(worst_error(Options{}.rounding) <= 1.0 / 16);  // half a step of three fraction bits
  CHECK(worst_error(Rounding::torchao_floor) > 1.0 / 9);
}

TEST_CASE(
    "Weights of a trained model lose at most half an E4M3 step, or half the smallest step of their block") {
  const Words weights = normal_weights(1 << 16, 9);
  const Quantized got = quantized(weights, {});
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double value = bf16_value(weights[i]);
    const double error = std::fabs(mx_value(got.q[i], got.scales[i / kBlock]) - value);
    const double smallest_step = std::ldexp(1.0, got.scales[i / kBlock] - 127 - 9);
    wrong += error > std::max(std::fabs(value) / 16, smallest_step / 2);
  }
  CHECK(wrong == 0);
}
