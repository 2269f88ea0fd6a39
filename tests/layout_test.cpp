// Row orders and scale tiles: golden outputs of the producers, fast path against reference, refusals.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/streamed_copy.hpp"
#include "refit/base/digest.hpp"
#include "refit/base/error.hpp"
#include "refit/checkpoint/safetensors.hpp"
#include "refit/layout/moe_shuffle.hpp"
#include "refit/layout/scale_128x4.hpp"
#include "support/catch.hpp"
#include "support/sha256.hpp"

namespace {

using namespace refit;
using namespace refit::layout;
using refit::checkpoint::SafetensorsFile;
using refit::test::sha256_hex;
using Bytes = std::vector<std::uint8_t>;
using View = std::span<const std::uint8_t>;

// Below, at and above 32 (the shuffle block) and 128 (the tile), and one of several tiles.
const std::vector<std::uint64_t> row_counts = {1, 31, 32, 33, 127, 128, 129, 130, 256, 1536};
// Around 4 (the tile), and the scale columns of w2 (24) and w13 (64) in Qwen3-30B-A3B.
const std::vector<std::uint64_t> col_counts = {1, 3, 4, 5, 6, 24, 64};

/// The byte stream of the golden README, which also serves as random input here.
Bytes stream_bytes(std::uint64_t seed, std::uint64_t count) {
  Bytes bytes(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::uint8_t>(mix64((i + 1) * 0x9E3779B97F4A7C15u + seed * 0xD1B54A32D192ED03u));
  }
  return bytes;
}

/// A buffer in which every byte that is not written stays visible.
Bytes poisoned(std::uint64_t count) {
  return Bytes(count, 0xA5);
}

std::string sha256_of(View bytes) {
  return sha256_hex(std::as_bytes(bytes));
}

/// "" when equal, else what a person wants to know.
std::string difference(View got, View want) {
  if (got.size() != want.size()) return fmt::format("{} bytes instead of {}", got.size(), want.size());
  const auto at = std::mismatch(got.begin(), got.end(), want.begin());
  if (at.first == got.end()) return "";
  return fmt::format("byte {} is {:#04x}, not {:#04x}", at.first - got.begin(), *at.first, *at.second);
}

/// The sentence with which a call is refused as bad input; "" when it is not.
std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.kind() == ErrorKind::input ? error.what() : "not Error(input)";
  }
  return "";
}

Bytes tile(View in, std::uint64_t rows, std::uint64_t cols) {
  Bytes out = poisoned(scale_128x4_bytes(rows, cols));
  tile_scales_128x4(in, rows, cols, out);
  return out;
}

/// Stacked experts: weights experts x rows x row_bytes, scales experts x rows x scale_cols.
struct Stack {
  ExpertRows what;
  std::uint64_t scale_cols = 0;
  Bytes weight;
  Bytes scales;
};

enum class Kind { gated_w13, non_gated_w13, w2 };

SourceRows rows_of(Kind kind, std::uint64_t rows) {
  const auto count = static_cast<std::uint32_t>(rows);
  return kind == Kind::w2 ? trtllm_w2_rows(count) : trtllm_w13_rows(count, kind == Kind::gated_w13);
}

Bytes gather(View in, const ExpertRows& what, const SourceRows& order) {
  Bytes out = poisoned(in.size());
  gather_rows_batched(in, what, order, out);
  return out;
}

/// Weights and scales through the fast path: two gathers over all experts, then each expert's tiles.
ShuffledExpert shuffle_batched(const Stack& stack, Kind kind) {
  const auto& [what, scale_cols, weight, scales] = stack;
  const SourceRows order = rows_of(kind, what.rows);
  const Bytes gathered = gather(scales, {what.experts, what.rows, scale_cols}, order);
  const std::uint64_t plain = what.rows * scale_cols;
  const std::uint64_t tiled = scale_128x4_bytes(what.rows, scale_cols);
  ShuffledExpert result = {gather(weight, what, order), poisoned(what.experts * tiled)};
  for (std::uint64_t e = 0; e < what.experts; ++e) {
    tile_scales_128x4(View(gathered).subspan(e * plain, plain), what.rows, scale_cols,
                      std::span(result.scales).subspan(e * tiled, tiled));
  }
  return result;
}

/// The same through the reference, one expert after the other.
ShuffledExpert shuffle_per_expert(const Stack& stack, Kind kind) {
  const auto& [what, scale_cols, weight, scales] = stack;
  const std::uint64_t weight_bytes = what.rows * what.row_bytes;
  const std::uint64_t scale_bytes = what.rows * scale_cols;
  ShuffledExpert result;
  for (std::uint64_t e = 0; e < what.experts; ++e) {
    const View w = View(weight).subspan(e * weight_bytes, weight_bytes);
    const View s = View(scales).subspan(e * scale_bytes, scale_bytes);
    const ShuffledExpert one = kind == Kind::w2
                                   ? shuffle_w2_expert_reference(w, s, what.rows, what.row_bytes, scale_cols)
                                   : shuffle_w13_expert_reference(w, s, what.rows, what.row_bytes, scale_cols,
                                                                  kind == Kind::gated_w13);
    result.weight.insert(result.weight.end(), one.weight.begin(), one.weight.end());
    result.scales.insert(result.scales.end(), one.scales.begin(), one.scales.end());
  }
  return result;
}

/// Experts in which every row of the weight, and every row of the scales, says which row of which expert it
/// is.
Stack numbered_experts(std::uint64_t experts, std::uint64_t rows, std::uint64_t row_bytes) {
  Stack stack = {{experts, rows, row_bytes}, row_bytes / 32, {}, {}};
  stack.weight.resize(experts * rows * row_bytes);
  stack.scales.resize(experts * rows * stack.scale_cols);
  for (std::uint64_t row = 0; row < experts * rows; ++row) {
    const auto number = static_cast<std::uint32_t>(row);
    for (std::uint64_t b = 0; b < row_bytes; b += 4) {
      std::memcpy(&stack.weight[row * row_bytes + b], &number, 4);
    }
    for (std::uint64_t c = 0; c < stack.scale_cols; ++c) {
      stack.scales[row * stack.scale_cols + c] = static_cast<std::uint8_t>(number >> c % 4 * 8);
    }
  }
  return stack;
}

SafetensorsFile golden(const std::string& name) {
  return SafetensorsFile::open(std::string(REFIT_TESTS_DIR "/golden/") + name);
}

Bytes bytes_of(const SafetensorsFile& file, const std::string& tensor) {
  const std::span<const std::byte> data = file.data(tensor);
  Bytes bytes(data.size());
  std::memcpy(bytes.data(), data.data(), data.size());
  return bytes;
}

std::vector<std::uint32_t> numbers_of(const SafetensorsFile& file, const std::string& tensor) {
  const std::span<const std::byte> data = file.data(tensor);
  std::vector<std::uint32_t> numbers(data.size() / 4);
  std::memcpy(numbers.data(), data.data(), data.size());
  return numbers;
}

/// Both row orders of the reference, seen through it: rows that hold their own number.
SourceRows reference_rows(Kind kind, std::uint32_t rows) {
  Bytes numbers(std::size_t{rows} * 4);
  for (std::uint32_t row = 0; row < rows; ++row) std::memcpy(&numbers[std::size_t{row} * 4], &row, 4);
  const ShuffledExpert moved = shuffle_per_expert({{1, rows, 4}, 0, numbers, {}}, kind);
  SourceRows order(rows);
  for (std::uint32_t row = 0; row < rows; ++row) {
    std::memcpy(&order[row], &moved.weight[std::size_t{row} * 4], 4);
  }
  return order;
}

}  // namespace

TEST_CASE("sha256_hex gives the published digests") {
  const auto hash = [](const std::string& text) { return sha256_hex(std::as_bytes(std::span(text))); };
  CHECK(hash("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hash("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  // 56 bytes: the length no longer fits into the first block.
  CHECK(hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(hash(std::string(1000000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("tiled scales equal what vLLM, FlashInfer and torchao produced") {
  const SafetensorsFile file = golden("scale_swizzle.safetensors");
  std::size_t cases = 0;
  for (const auto& entry : file.entries()) {
    if (entry.spec.name.rfind("in.", 0) != 0) continue;
    CAPTURE(entry.spec.name);
    const Shape& shape = entry.spec.shape;
    const std::uint64_t matrices = shape.size() == 3 ? shape[0] : 1;
    const std::uint64_t rows = shape[shape.size() - 2], cols = shape.back();
    const Bytes in = bytes_of(file, entry.spec.name);
    Bytes fast, reference;
    for (std::uint64_t m = 0; m < matrices; ++m) {
      const View matrix = View(in).subspan(m * rows * cols, rows * cols);
      const Bytes tiled = tile(matrix, rows, cols);
      fast.insert(fast.end(), tiled.begin(), tiled.end());
      const Bytes slow = tile_scales_128x4_reference(matrix, rows, cols);
      reference.insert(reference.end(), slow.begin(), slow.end());
    }
    const Bytes want = bytes_of(file, "out." + entry.spec.name.substr(3));
    CHECK(difference(fast, want) == "");
    CHECK(difference(reference, want) == "");
    ++cases;
  }
  CHECK(cases == 7);
  CHECK(cases * 2 == file.entries().size());
}

TEST_CASE("row orders equal FlashInfer's") {
  const SafetensorsFile file = golden("moe_shuffle.safetensors");
  for (const std::uint32_t rows : {128u, 256u, 1536u}) {
    CAPTURE(rows);
    const auto want = [&](const char* name) {
      return numbers_of(file, fmt::format("perm.{}.{}", name, rows));
    };
    const SourceRows shuffle = shuffle_rows(rows);
    const SourceRows interleave = gated_interleave_rows(rows);
    CHECK((shuffle == want("shuffle_a")));
    CHECK((interleave == want("gated")));
    SourceRows both(rows);
    for (std::uint32_t n = 0; n < rows; ++n) both[n] = interleave[shuffle[n]];
    CHECK((both == want("gated_then_shuffle")));
    CHECK((trtllm_w13_rows(rows, true) == want("from_w13_checkpoint")));
    CHECK((trtllm_w13_rows(rows, false) == want("shuffle_a")));
    CHECK((trtllm_w2_rows(rows) == want("shuffle_a")));
    CHECK((reference_rows(Kind::gated_w13, rows) == want("from_w13_checkpoint")));
    CHECK((reference_rows(Kind::non_gated_w13, rows) == want("shuffle_a")));
    CHECK((reference_rows(Kind::w2, rows) == want("shuffle_a")));
  }
}

TEST_CASE("shuffled experts equal what NeMo-RL produced") {
  const SafetensorsFile file = golden("moe_shuffle.safetensors");
  const Json cases = parse_json(file.metadata().at("cases"), "cases in moe_shuffle.safetensors");
  REQUIRE(cases.size() == 3);
  std::size_t stored = 0;
  for (const auto& [tag, facts] : cases.items()) {
    const bool gated = tag.rfind("gated.", 0) == 0;
    const auto number_after = [&tag = tag](const char* key) {
      return std::stoull(tag.substr(tag.find(key) + std::strlen(key)));
    };
    const std::uint64_t inner = number_after(".i"), hidden = number_after(".h"), experts = number_after(".e");
    const std::uint64_t w13_rows = gated ? 2 * inner : inner;
    const Json& seeds = facts.at("seeds");

    /// The stored input, if there is one; the stream of its seed otherwise. Its hash is checked in both
    /// cases.
    const auto input = [&, &tag = tag, &facts = facts](const std::string& name, int seed,
                                                       std::uint64_t count) {
      const std::string tensor = tag + ".in." + name;
      const Bytes bytes = file.contains(tensor) ? bytes_of(file, tensor)
                                                : stream_bytes(seeds.at(seed).get<std::uint64_t>(), count);
      CAPTURE(tensor);
      REQUIRE(bytes.size() == count);
      REQUIRE(sha256_of(bytes) == facts.at("in_sha256").at(name).get<std::string>());
      return bytes;
    };
    const auto check_output = [&, &tag = tag, &facts = facts](const std::string& name, const Bytes& got) {
      const std::string tensor = tag + ".out." + name;
      CAPTURE(tensor);
      CHECK(num_elements(facts.at("out_shape").at(name).get<Shape>()) == got.size());
      CHECK(sha256_of(got) == facts.at("out_sha256").at(name).get<std::string>());
      if (!file.contains(tensor)) return;
      CHECK(difference(got, bytes_of(file, tensor)) == "");
      ++stored;
    };

    const Stack w13 = {{experts, w13_rows, hidden},
                       hidden / 32,
                       input("w13", 0, experts * w13_rows * hidden),
                       input("w13_scale", 2, experts * w13_rows * hidden / 32)};
    const Stack w2 = {{experts, hidden, inner},
                      inner / 32,
                      input("w2", 1, experts * hidden * inner),
                      input("w2_scale", 3, experts * hidden * inner / 32)};
    const Kind kind = gated ? Kind::gated_w13 : Kind::non_gated_w13;
    for (const auto shuffle : {shuffle_batched, shuffle_per_expert}) {
      const ShuffledExpert got_w13 = shuffle(w13, kind);
      const ShuffledExpert got_w2 = shuffle(w2, Kind::w2);
      check_output("w13", got_w13.weight);
      check_output("w13_scale", got_w13.scales);
      check_output("w2", got_w2.weight);
      check_output("w2_scale", got_w2.scales);
    }
  }
  // 12 permutations, and 4 inputs and 4 outputs of two cases: no tensor of the file is left out.
  CHECK(stored == 2 * 2 * 4);
  CHECK(file.entries().size() == 12 + 2 * (4 + 4));
}

TEST_CASE("the worked examples of the numeric specification hold") {
  CHECK(scale_128x4_bytes(130, 5) == 2048);
  CHECK(scale_128x4_offset(129, 4, padded_scale_cols(5)) == 1552);
  CHECK(scale_128x4_bytes(1536, 64) == 98304);
  CHECK(scale_128x4_bytes(2048, 24) == 49152);
  CHECK(padded_scale_cols(6) == 8);

  const auto starts_with = [](const SourceRows& rows, const SourceRows& head) {
    return std::equal(head.begin(), head.end(), rows.begin());
  };
  CHECK(starts_with(shuffle_rows(32), {0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13}));
  CHECK(starts_with(trtllm_w13_rows(128, true),
                    {64, 66, 68, 70, 72, 74, 76, 78, 0, 2, 4, 6, 8,  10, 12, 14, 65,
                     67, 69, 71, 73, 75, 77, 79, 1,  3, 5, 7, 9, 11, 13, 15, 80, 82}));
}

TEST_CASE("tiling equals the reference and writes every byte, padding as zero") {
  for (const std::uint64_t rows : row_counts) {
    for (const std::uint64_t cols : col_counts) {
      CAPTURE(rows, cols);
      const Bytes in = stream_bytes(rows * 1000 + cols, rows * cols);
      const Bytes tiled = tile(in, rows, cols);
      CHECK(difference(tiled, tile_scales_128x4_reference(in, rows, cols)) == "");

      const Bytes marks = tile(Bytes(rows * cols, 0xFF), rows, cols);
      Bytes want(marks.size(), 0);
      for (std::uint64_t r = 0; r < rows; ++r) {
        for (std::uint64_t c = 0; c < cols; ++c)
          want[scale_128x4_offset(r, c, padded_scale_cols(cols))] = 0xFF;
      }
      CHECK(difference(marks, want) == "");
      CHECK(std::count(want.begin(), want.end(), 0xFF) == static_cast<std::ptrdiff_t>(rows * cols));

      Bytes back = poisoned(in.size());
      untile_scales_128x4(tiled, rows, cols, back);
      CHECK(difference(back, in) == "");
    }
  }
}

TEST_CASE("every scale of a shuffled matrix is where the layout says") {
  // Distinct exponents: neighbours in a row, in a column and in a tile differ, so a misplaced byte shows.
  constexpr std::uint64_t rows = 256, cols = 24;
  Bytes scales(rows * cols);
  const auto exponent = [](std::uint64_t r, std::uint64_t c) {
    return static_cast<std::uint8_t>((7 * r + 3 * c) % 200);
  };
  for (std::uint64_t r = 0; r < rows; ++r) {
    for (std::uint64_t c = 0; c < cols; ++c) scales[r * cols + c] = exponent(r, c);
  }
  const Stack stack = {{1, rows, 0}, cols, {}, scales};
  for (const Kind kind : {Kind::gated_w13, Kind::non_gated_w13, Kind::w2}) {
    const SourceRows order = rows_of(kind, rows);
    Bytes want(rows * cols);
    for (std::uint64_t at = 0; at < want.size(); ++at) {
      const std::uint64_t tile_index = at / 512, line = at % 512 / 16, quarter = at % 16 / 4;
      const std::uint64_t row = tile_index / (cols / 4) * 128 + quarter * 32 + line;
      want[at] = exponent(order[row], tile_index % (cols / 4) * 4 + at % 4);
    }
    CHECK(difference(shuffle_batched(stack, kind).scales, want) == "");
    CHECK(difference(shuffle_per_expert(stack, kind).scales, want) == "");

    // The fault that this content is for: rows permuted, tiles forgotten.
    const Bytes untiled = gather(scales, {1, rows, cols}, order);
    const auto equal = std::inner_product(untiled.begin(), untiled.end(), want.begin(), std::size_t{0},
                                          std::plus<>(), std::equal_to<>());
    CHECK(equal < want.size() / 20);
  }
}

TEST_CASE("every expert is padded to whole tiles on its own") {
  constexpr std::uint64_t experts = 3, rows = 130, cols = 3;
  const std::uint64_t tiled = scale_128x4_bytes(rows, cols);
  REQUIRE(experts * tiled == 3 * 256 * 4);
  const Bytes in = stream_bytes(73, experts * rows * cols);
  Bytes out = poisoned(experts * tiled);
  for (std::uint64_t e = 0; e < experts; ++e) {
    tile_scales_128x4(View(in).subspan(e * rows * cols, rows * cols), rows, cols,
                      std::span(out).subspan(e * tiled, tiled));
  }
  for (std::uint64_t e = 0; e < experts; ++e) {
    for (std::uint64_t r = 0; r < 256; ++r) {
      for (std::uint64_t c = 0; c < 4; ++c) {
        const std::uint8_t want = r < rows && c < cols ? in[(e * rows + r) * cols + c] : 0;
        if (out[e * 1024 + scale_128x4_offset(r, c, 4)] != want) FAIL_CHECK("expert " << e << " row " << r);
      }
    }
  }
  // Padded as one group of 390 rows, the bytes would be fewer and others.
  CHECK(scale_128x4_bytes(experts * rows, cols) == 512 * 4);
}

TEST_CASE("experts without rows are skipped and the others stay right") {
  const std::array<std::uint64_t, 4> groups = {128, 0, 256, 0};
  constexpr std::uint64_t cols = 6;
  const Bytes in = stream_bytes(75, 384 * cols);
  std::uint64_t first = 0;
  for (const std::uint64_t rows : groups) {
    const View group = View(in).subspan(first * cols, rows * cols);
    const Bytes tiled = tile(group, rows, cols);
    CHECK(tiled.size() == rows * 8);
    CHECK(difference(tiled, tile_scales_128x4_reference(group, rows, cols)) == "");
    const Stack stack = {{1, rows, cols}, cols, {group.begin(), group.end()}, {group.begin(), group.end()}};
    for (const Kind kind : {Kind::gated_w13, Kind::non_gated_w13, Kind::w2}) {
      const ShuffledExpert fast = shuffle_batched(stack, kind), slow = shuffle_per_expert(stack, kind);
      CHECK(fast.weight.size() == rows * cols);
      CHECK(difference(fast.weight, slow.weight) == "");
      CHECK(difference(fast.scales, slow.scales) == "");
    }
    first += rows;
  }
  CHECK(trtllm_w13_rows(0, true).empty());
  CHECK(trtllm_w13_rows(0, false).empty());
  CHECK(trtllm_w2_rows(0).empty());
  CHECK(shuffle_rows(0).empty());
  CHECK(gated_interleave_rows(0).empty());
  CHECK(inverse({}).empty());
  CHECK(gather({}, {0, 128, 64}, shuffle_rows(128)).empty());
  CHECK(gather({}, {2, 128, 0}, shuffle_rows(128)).empty());
  CHECK(gather({}, {2, 0, 64}, {}).empty());
  // No columns, and more rows than any loop should visit.
  CHECK(tile({}, std::uint64_t{1} << 60, 0).empty());
  CHECK(tile_scales_128x4_reference({}, std::uint64_t{1} << 60, 0).empty());
  CHECK(refusal([] { untile_scales_128x4({}, std::uint64_t{1} << 60, 0, {}); }) == "");
}

TEST_CASE("the batched shuffle of 128 experts equals the per-expert reference") {
  const auto check_equal = [](std::uint64_t rows, std::uint64_t row_bytes, Kind kind) {
    CAPTURE(rows, row_bytes, static_cast<int>(kind));
    const Stack stack = numbered_experts(128, rows, row_bytes);
    const ShuffledExpert fast = shuffle_batched(stack, kind), slow = shuffle_per_expert(stack, kind);
    CHECK(difference(fast.weight, slow.weight) == "");
    CHECK(difference(fast.scales, slow.scales) == "");
    CHECK(difference(fast.weight, stack.weight) != "");
  };
  SECTION("gated, intermediate 768") {
    check_equal(1536, 64, Kind::gated_w13);
  }
  SECTION("gated, intermediate 768, 5 scale columns") {
    check_equal(1536, 160, Kind::gated_w13);
  }
  SECTION("gated, intermediate 768, above the streaming threshold") {
    check_equal(1536, 192, Kind::gated_w13);
  }
  SECTION("non-gated, intermediate 1920") {
    check_equal(1920, 96, Kind::non_gated_w13);
  }
  SECTION("down projection, hidden 2048") {
    check_equal(2048, 96, Kind::w2);
  }
}

TEST_CASE("batched and per-expert shuffles agree over many shapes") {
  for (const std::uint64_t rows : {128u, 256u, 384u, 1536u}) {
    for (const std::uint64_t cols : col_counts) {
      for (const Kind kind : {Kind::gated_w13, Kind::non_gated_w13, Kind::w2}) {
        CAPTURE(rows, cols, static_cast<int>(kind));
        const std::uint64_t row_bytes = cols + 1;  // not a multiple of anything useful
        const Stack stack = {{2, rows, row_bytes},
                             cols,
                             stream_bytes(rows + cols, 2 * rows * row_bytes),
                             stream_bytes(rows * cols, 2 * rows * cols)};
        const ShuffledExpert fast = shuffle_batched(stack, kind), slow = shuffle_per_expert(stack, kind);
        CHECK(difference(fast.weight, slow.weight) == "");
        CHECK(difference(fast.scales, slow.scales) == "");
      }
    }
  }
}

TEST_CASE("a gather gives the same bytes whether or not its stores bypass the cache") {
  constexpr std::uint32_t rows = 128;
  const SourceRows order = trtllm_w13_rows(rows, true);
  // 784 = 12 lines and a quarter; 56 cannot be streamed; an offset of 16 splits every line, one of 1 forbids
  // streaming.
  const std::uint64_t row_bytes = GENERATE(std::uint64_t{768}, std::uint64_t{784}, std::uint64_t{56});
  const std::uint64_t offset = GENERATE(std::uint64_t{0}, std::uint64_t{16}, std::uint64_t{1});
  CAPTURE(row_bytes, offset);
  const std::uint64_t experts = streaming_threshold_bytes / (rows * row_bytes) + 1;
  const std::uint64_t count = experts * rows * row_bytes;
  Bytes in = stream_bytes(7, rows * row_bytes * 3);  // three different experts, repeated
  in.resize(count);
  for (std::uint64_t i = rows * row_bytes * 3; i < count; ++i) in[i] = in[i - rows * row_bytes * 3];

  Bytes out = poisoned(offset + count + 64);
  gather_rows_batched(in, {experts, rows, row_bytes}, order, std::span(out).subspan(offset, count));

  Bytes want = poisoned(out.size());
  for (std::uint64_t row = 0; row < experts * rows; ++row) {
    const std::uint64_t source = row / rows * rows + order[row % rows];
    std::copy_n(&in[source * row_bytes], row_bytes, &want[offset + row * row_bytes]);
  }
  CHECK(difference(out, want) == "");
}

TEST_CASE("row orders are permutations, equal the reference, and invert") {
  const auto check_order = [](const SourceRows& order) {
    CAPTURE(order.size());
    SourceRows sorted = order, identity(order.size());
    std::sort(sorted.begin(), sorted.end());
    std::iota(identity.begin(), identity.end(), 0u);
    CHECK((sorted == identity));
    const std::vector<std::uint32_t> destination = inverse(order);
    CHECK((inverse(destination) == order));
    for (std::uint32_t n = 0; n < order.size(); ++n) sorted[n] = destination[order[n]];
    CHECK((sorted == identity));
  };
  for (const std::uint32_t rows : {32u, 64u, 96u, 128u, 160u}) check_order(shuffle_rows(rows));
  for (const std::uint32_t rows : {2u, 30u, 32u, 34u, 126u, 128u, 130u})
    check_order(gated_interleave_rows(rows));
  for (const std::uint32_t rows : {128u, 256u, 384u, 1536u, 3712u, 4096u}) {
    for (const Kind kind : {Kind::gated_w13, Kind::non_gated_w13, Kind::w2}) {
      CAPTURE(rows, static_cast<int>(kind));
      check_order(rows_of(kind, rows));
      CHECK((rows_of(kind, rows) == reference_rows(kind, rows)));
    }
  }
  const std::vector<std::uint32_t> destination = inverse(shuffle_rows(1536));
  for (std::uint32_t old = 0; old < 1536; ++old) {
    if (destination[old] != old / 32 * 32 + old % 4 * 8 + old % 32 / 4) FAIL_CHECK("old row " << old);
  }
}

TEST_CASE("row counts that do not tile are refused with the number") {
  CHECK(refusal([] { (void)shuffle_rows(33); }) ==
        "The row shuffle works on blocks of 32 rows, and 33 rows leave 1.");
  CHECK(refusal([] { (void)gated_interleave_rows(33); }) ==
        "Gate and up rows interleave in pairs, and 33 rows is an odd number.");
  CHECK(refusal([] { (void)trtllm_w13_rows(1856, false); }) ==
        "The TRT-LLM MoE layout of non-gated w13 needs a multiple of 128 rows, not 1856 (64 remain).");
  CHECK(refusal([] { (void)trtllm_w13_rows(129, true); }) ==
        "The TRT-LLM MoE layout of gated w13 needs a multiple of 128 rows, not 129 (1 remain).");
  CHECK(refusal([] { (void)trtllm_w2_rows(127); }) ==
        "The TRT-LLM MoE layout of w2 needs a multiple of 128 rows, not 127 (127 remain).");
  // Gated experts of the same width have 29 x 128 rows.
  CHECK(refusal([] { (void)trtllm_w13_rows(2 * 1856, true); }) == "");
  for (const std::uint32_t rows : {1u, 31u, 32u, 64u, 96u, 127u, 129u, 1856u}) {
    CAPTURE(rows);
    const Bytes weight(rows * 32), scales(rows);
    CHECK(refusal([&] { (void)trtllm_w13_rows(rows, true); }) != "");
    CHECK(refusal([&] { (void)trtllm_w13_rows(rows, false); }) != "");
    CHECK(refusal([&] { (void)trtllm_w2_rows(rows); }) != "");
    CHECK(refusal([&] { (void)shuffle_w13_expert_reference(weight, scales, rows, 32, 1, true); }) != "");
    CHECK(refusal([&] { (void)shuffle_w13_expert_reference(weight, scales, rows, 32, 1, false); }) != "");
    CHECK(refusal([&] { (void)shuffle_w2_expert_reference(weight, scales, rows, 32, 1); }) != "");
  }
}

TEST_CASE("row maps that are not permutations are refused with the entry") {
  const SourceRows outside = {0, 1, 3}, twice = {1, 0, 1};
  CHECK(refusal([&] { (void)inverse(outside); }) == "Row map entry 2 is 3, but there are 3 rows.");
  CHECK(refusal([&] { (void)inverse(twice); }) ==
        "Row map entries 0 and 2 are both 1, so the map is not a permutation.");
  const Bytes in(6);
  Bytes out = poisoned(6);
  CHECK(refusal([&] {
          gather_rows_batched(in, {1, 3, 2}, outside, out);
        }) == "Row map entry 2 is 3, but there are 3 rows.");
  CHECK(refusal([&] {
          gather_rows_batched(in, {1, 3, 2}, SourceRows{0, 1}, out);
        }) == "The row map has 2 entries for 3 rows.");
  CHECK(difference(out, poisoned(6)) == "");
}

TEST_CASE("buffers of another size than announced are refused before a byte is written") {
  const Bytes in(12);
  Bytes out = poisoned(512), small = poisoned(511);
  CHECK(refusal([&] { tile_scales_128x4(in, 3, 5, out); }) ==
        "A row-major scale matrix to tile has 12 bytes, but 1 x 3 x 5 were announced.");
  CHECK(refusal([&] { tile_scales_128x4(in, 3, 4, small); }) ==
        "The buffer for tiled 128x4 scales has 511 bytes, but 1 x 128 x 4 were announced.");
  CHECK(refusal([&] { (void)tile_scales_128x4_reference(in, 3, 5); }) ==
        "A row-major scale matrix to tile has 12 bytes, but 1 x 3 x 5 were announced.");
  CHECK(refusal([&] { untile_scales_128x4(Bytes(511), 3, 4, std::span(out).first(12)); }) ==
        "A tiled 128x4 scale matrix has 511 bytes, but 1 x 128 x 4 were announced.");
  CHECK(refusal([&] { untile_scales_128x4(Bytes(512), 3, 4, std::span(out).first(13)); }) ==
        "The buffer for row-major scales has 13 bytes, but 1 x 3 x 4 were announced.");

  const SourceRows order = {1, 0};
  const auto gathers = [&](std::uint64_t in_size, std::uint64_t out_size) {
    return refusal([&] {
      gather_rows_batched(View(in).first(in_size), {2, 2, 3}, order, std::span(out).first(out_size));
    });
  };
  CHECK(gathers(12, 12) == "");
  out = poisoned(512);
  CHECK(gathers(11, 12) == "The stack of experts to gather from has 11 bytes, but 2 x 2 x 3 were announced.");
  CHECK(gathers(12, 13) == "The stack of experts to gather into has 13 bytes, but 2 x 2 x 3 were announced.");
  // 2^32 x 2 x 2^31 is 0 modulo 2^64.
  CHECK(refusal([&] {
          gather_rows_batched({}, {1ull << 32, 2, 1ull << 31}, order, {});
        }) ==
        "The stack of experts to gather from has 0 bytes, but 4294967296 x 2 x 2147483648 were announced.");
  CHECK(difference(out, poisoned(512)) == "");
  CHECK(difference(small, poisoned(511)) == "");

  const Bytes weight(128 * 32), scales(128);
  CHECK(refusal([&] { (void)shuffle_w2_expert_reference(weight, scales, 128, 33, 1); }) ==
        "The weight of one expert has 4096 bytes, but 1 x 128 x 33 were announced.");
  CHECK(refusal([&] { (void)shuffle_w13_expert_reference(weight, scales, 128, 32, 2, true); }) ==
        "The scale matrix of one expert has 128 bytes, but 1 x 128 x 2 were announced.");
}

TEST_CASE("a gather onto its own source is refused") {
  Bytes bytes(3 * 4);
  const std::span<std::uint8_t> all = bytes;
  const SourceRows order = {1, 0};
  CHECK(refusal([&] {
          gather_rows_batched(all.first(8), {1, 2, 4}, order, all.last(8));
        }) == "Rows cannot be gathered in place: source and destination overlap.");
  CHECK(refusal([&] { gather_rows_batched(all.first(4), {1, 2, 2}, order, all.subspan(4, 4)); }) == "");
}
