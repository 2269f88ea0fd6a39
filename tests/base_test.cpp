// Errors, byte counts, digests, the thread pool and strict JSON.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "base/json.hpp"
#include "refit/base/bytes.hpp"
#include "refit/base/digest.hpp"
#include "refit/base/thread_pool.hpp"
#include "support/catch.hpp"
#include "support/error_of.hpp"
#include "support/temp_dir.hpp"

using namespace refit;

// ---- error

TEST_CASE("an error carries its sentence and its kind, and the kind gives the exit code") {
  CHECK(std::string(error_of([] { fail_input("bad file"); }).what()) == "bad file");
  CHECK(error_of([] { fail_input("x"); }).kind() == ErrorKind::input);
  CHECK(error_of([] { fail_runtime("x"); }).kind() == ErrorKind::runtime);
  CHECK(exit_code(ErrorKind::check) == 1);
  CHECK(exit_code(ErrorKind::input) == 2);
  CHECK(exit_code(ErrorKind::runtime) == 3);
}

// ---- bytes

TEST_CASE("byte counts are read with binary and decimal units in any case") {
  const std::vector<std::pair<std::string_view, std::uint64_t>> cases{
      {"1", 1},
      {"4096", 4096},
      {"512 B", 512},
      {"1K", 1024},
      {"64MiB", 64ull << 20},
      {"64mib", 64ull << 20},
      {"64 MiB", 64ull << 20},
      {"4G", 4ull << 30},
      {"2T", 2ull << 40},
      {"3KiB", 3072},
      {"5GiB", 5ull << 30},
      {"7TiB", 7ull << 40},
      {"3KB", 3000},
      {"3kB", 3000},
      {"64MB", 64'000'000},
      {"4GB", 4'000'000'000},
      {"2TB", 2'000'000'000'000},
      {"1.5GiB", 1'610'612'736},
      {"0.5K", 512},
      {"57.98GB", 57'980'000'000},
      {"0.0009765625K", 1},
      {"007", 7},
      {"9007199254740993", 9007199254740993},  // 2^53 + 1: no double holds it
      {"4611686018427387904", 1ull << 62},
      {"4194304T", 1ull << 62},
  };
  for (const auto& [text, bytes] : cases) {
    CAPTURE(text);
    CHECK(parse_bytes(text, "--x") == bytes);
  }
}

TEST_CASE("what is not a positive byte count is refused with the option and the text") {
  for (const std::string_view text :
       {"",        " ",    "-1",     "+1",     "-64MiB", "MiB",   "B",         ".5G",     "5.",     "1.G",
        "1.5.5",   "1e3",  "0x10",   "nan",    "inf",    "1_000", "1,000",     "64 MiB ", " 64MiB", "64 ",
        "64  MiB", "64Mi", "64MiBs", "64bits", "1P",     "\xff",  "\xC2\xBDG", "1GG"}) {
    CAPTURE(text);
    check_input_error([&] { (void)parse_bytes(text, "--buffer-size"); }, "--buffer-size", text,
                      "not a byte count");
  }
  for (const std::string_view text : {"0", "0MiB", "0.0", "0.4", "0.0001K"}) {
    CAPTURE(text);
    check_input_error([&] { (void)parse_bytes(text, "--b"); }, "--b", text, "zero");
  }
  for (const std::string_view text :
       {"4611686018427387905", "4194304.0000001T", "4194305T", "18446744073709551615", "18446744073709551616",
        "99999999999999999999999999999T"}) {
    CAPTURE(text);
    check_input_error([&] { (void)parse_bytes(text, "--b"); }, "--b", text, "2^62");
  }
}

TEST_CASE("byte counts are printed in decimal units with two digits") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(512) == "512 B");
  CHECK(format_bytes(999) == "999 B");
  CHECK(format_bytes(1000) == "1.00 KB");
  CHECK(format_bytes(999'994) == "999.99 KB");
  CHECK(format_bytes(999'995) == "1.00 MB");
  CHECK(format_bytes(1ull << 20) == "1.05 MB");
  CHECK(format_bytes(57'982'058'496) == "57.98 GB");
  CHECK(format_bytes(61'064'245'248) == "61.06 GB");
  CHECK(format_bytes(1'342'052'838'400) == "1.34 TB");
  CHECK(format_bytes(~0ull) == "18446744.07 TB");
}

TEST_CASE("align_up gives the smallest multiple not below") {
  CHECK(align_up(0, 512) == 0);
  CHECK(align_up(1, 512) == 512);
  CHECK(align_up(511, 512) == 512);
  CHECK(align_up(512, 512) == 512);
  CHECK(align_up(513, 512) == 1024);
  CHECK(align_up(7, 1) == 7);
}

// ---- digest

namespace {

std::vector<std::byte> counted_bytes(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(mix64(i) & 0xFF);
  return bytes;
}

/// The published sentence, word by word and byte by byte.
std::uint64_t digest_by_definition(const std::vector<std::byte>& bytes) {
  std::uint64_t sum = mix64(bytes.size() + 1);
  for (std::uint64_t i = 0; i * 8 < bytes.size(); ++i) {
    std::uint64_t word = 0;
    for (std::size_t k = 0; k < 8 && i * 8 + k < bytes.size(); ++k) {
      word |= std::uint64_t{std::to_integer<std::uint8_t>(bytes[i * 8 + k])} << (8 * k);
    }
    sum += mix64(word + (i + 1) * 0x9E3779B97F4A7C15ull);
  }
  return sum;
}

}  // namespace

TEST_CASE("mix64 is the finalizer of splitmix64") {
  // The first outputs of splitmix64 seeded with 0 and with 1234567, as its reference prints them.
  CHECK(mix64(0x9E3779B97F4A7C15ull) == 0xE220A8397B1DCDAFull);
  CHECK(mix64(2 * 0x9E3779B97F4A7C15ull) == 0x6E789E6AA1B965F4ull);
  CHECK(mix64(1234567 + 0x9E3779B97F4A7C15ull) == 6457827717110365317ull);
  CHECK(mix64(0) == 0);
}

TEST_CASE("the digest equals its definition at every size and alignment") {
  const auto bytes = counted_bytes(4096 + 64);
  for (std::size_t size = 0; size <= 300; ++size) {
    CAPTURE(size);
    for (const std::size_t shift : {0u, 1u, 3u, 8u}) {
      const std::vector<std::byte> piece(bytes.begin() + static_cast<std::ptrdiff_t>(shift),
                                         bytes.begin() + static_cast<std::ptrdiff_t>(shift + size));
      REQUIRE(digest(std::span(bytes).subspan(shift, size)) == digest_by_definition(piece));
    }
  }
  CHECK(digest(bytes) == digest_by_definition(bytes));
  CHECK(digest({}) == mix64(1));
}

TEST_CASE("digests have the values that manifests of earlier versions carry") {
  CHECK(digest_text("") == mix64(1));
  CHECK(digest_hex(digest_text("")) == "5692161d100b05e5");
  CHECK(digest_hex(digest_text("refit")) ==
        digest_hex(mix64(6) + mix64(0x7469666572ull + 0x9E3779B97F4A7C15ull)));
  CHECK(digest_hex(0) == "0000000000000000");
  CHECK(digest_hex(0xFEDCBA9876543210ull) == "fedcba9876543210");
}

TEST_CASE("parts of a buffer compose to its digest in any order") {
  for (const std::size_t size : {0u, 1u, 7u, 8u, 9u, 31u, 32u, 33u, 127u, 128u, 129u, 4096u, 4097u}) {
    const auto bytes = counted_bytes(size);
    for (const std::size_t part_words : {1u, 2u, 3u, 4u, 5u, 16u, 1000u}) {
      CAPTURE(size, part_words);
      std::uint64_t sum = mix64(size + 1);
      const std::size_t parts = size / (part_words * 8) + 1;
      for (std::size_t part = parts; part-- > 0;) {
        const std::size_t first = part * part_words;
        const auto rest = std::span(bytes).subspan(first * 8);
        sum += digest_part(rest.first(std::min(rest.size(), part_words * 8)), first);
      }
      REQUIRE(sum == digest(bytes));
    }
  }
}

TEST_CASE("a digest changes with every bit, with the order of words, and with trailing zeros") {
  const auto bytes = counted_bytes(129);
  std::set<std::uint64_t> seen{digest(bytes)};
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    auto changed = bytes;
    changed[bit / 8] ^= std::byte{1} << (bit % 8);
    CHECK(seen.insert(digest(changed)).second);
  }
  auto swapped = bytes;
  std::swap_ranges(swapped.begin(), swapped.begin() + 8, swapped.begin() + 64);
  CHECK(seen.insert(digest(swapped)).second);
  std::set<std::uint64_t> zeros;
  for (std::size_t size = 0; size <= 64; ++size) {
    CHECK(zeros.insert(digest(std::vector<std::byte>(size))).second);
  }
}

// ---- thread pool

TEST_CASE("a parallel loop covers every index once in pieces of at most the grain") {
  for (const unsigned threads : {0u, 1u, 2u, 3u, 8u}) {
    ThreadPool pool(threads);
    CHECK(pool.threads() == std::max(threads, 1u));
    for (const std::size_t count : {0u, 1u, 2u, 31u, 32u, 33u, 127u, 128u, 129u, 10'000u}) {
      for (const std::size_t grain : {1u, 2u, 32u, 128u, 20'000u}) {
        CAPTURE(threads, count, grain);
        std::vector<std::atomic<int>> visits(count);
        std::atomic<std::size_t> longest = 0;
        pool.for_range(count, grain, [&](std::size_t begin, std::size_t end) {
          std::size_t seen = longest.load();
          while (seen < end - begin && !longest.compare_exchange_weak(seen, end - begin)) {
          }
          for (std::size_t i = begin; i < end; ++i) ++visits[i];
        });
        REQUIRE(std::all_of(visits.begin(), visits.end(), [](const auto& n) { return n == 1; }));
        REQUIRE(longest == std::min(count, grain));
      }
    }
  }
}

TEST_CASE("a loop over nothing calls nothing, and the largest range does not wrap around") {
  ThreadPool pool(2);
  pool.for_range(0, 1, [](std::size_t, std::size_t) { FAIL("called"); });
  const std::size_t all = ~std::size_t{0};
  std::mutex mutex;
  std::vector<std::pair<std::size_t, std::size_t>> pieces;
  pool.for_range(all, all - 1, [&](std::size_t begin, std::size_t end) {
    const std::lock_guard lock(mutex);
    pieces.emplace_back(begin, end);
  });
  std::sort(pieces.begin(), pieces.end());
  CHECK(pieces == std::vector<std::pair<std::size_t, std::size_t>>{{0, all - 1}, {all - 1, all}});
}

TEST_CASE("a grain of zero is refused") {
  ThreadPool pool(2);
  check_input_error([&] { pool.for_range(10, 0, [](std::size_t, std::size_t) {}); }, "10", "grain");
}

TEST_CASE("writes of a loop are visible after it and to the next one") {
  ThreadPool pool(4);
  std::vector<std::uint64_t> values(1000);
  for (int round = 0; round < 500; ++round) {
    pool.for_range(values.size(), 7, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) values[i] += i;
    });
  }
  for (std::size_t i = 0; i < values.size(); ++i) REQUIRE(values[i] == 500 * i);
}

TEST_CASE("two threads really run at once") {
  ThreadPool pool(2);
  std::atomic<int> arrived = 0;
  // Each body waits for the other: a pool that ran them one after the other would never return.
  pool.for_range(2, 1, [&](std::size_t, std::size_t) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
  CHECK(arrived == 2);
}

TEST_CASE("one thread runs the loop inline and in order") {
  ThreadPool pool(1);
  std::vector<std::size_t> begins;
  const auto caller = std::this_thread::get_id();
  pool.for_range(10, 3, [&](std::size_t begin, std::size_t) {
    CHECK(std::this_thread::get_id() == caller);
    begins.push_back(begin);
  });
  CHECK(begins == std::vector<std::size_t>{0, 3, 6, 9});
}

TEST_CASE("an exception of a body reaches the caller after all have stopped, and the pool stays usable") {
  for (const unsigned threads : {1u, 2u, 4u}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 50; ++round) {
      CAPTURE(threads, round);
      std::atomic<int> running = 0;
      std::atomic<int> calls = 0;
      bool caught = false;
      try {
        pool.for_range(100'000, 1, [&](std::size_t begin, std::size_t) {
          ++calls;
          ++running;
          std::this_thread::yield();
          --running;
          if (begin == 5) throw std::runtime_error("item 5");
        });
      } catch (const std::runtime_error& error) {
        caught = std::string(error.what()) == "item 5";
      }
      REQUIRE(caught);
      REQUIRE(running == 0);
      REQUIRE(calls < 100'000);  // the rest was abandoned
      std::atomic<std::size_t> sum = 0;
      pool.for_range(100, 9, [&](std::size_t begin, std::size_t end) { sum += end - begin; });
      REQUIRE(sum == 100);
    }
  }
}

TEST_CASE("pools may be made and destroyed without a loop") {
  for (int i = 0; i < 50; ++i) ThreadPool pool(4);
  SUCCEED();
}

// ---- json

namespace {

std::string in_quotes(const std::string& text) {
  return fmt::format("\"{}\"", text);
}

}  // namespace

TEST_CASE("well-formed JSON keeps its values and number types") {
  const Json value = parse_json(
      R"( {"a": [1, -2, 2.5, 18446744073709551615, 1e3], "b": {"c": null, "d": true, "": "é\u0000\ud83d\ude00"},
           "e": [], "f": {}, "g": [[], {"h": [{}]}]} )",
      "x");
  CHECK(value["a"][0].is_number_unsigned());
  CHECK(value["a"][1].is_number_integer());
  CHECK(value["a"][1] == -2);
  CHECK(value["a"][2] == 2.5);
  CHECK(value["a"][3].get<std::uint64_t>() == ~0ull);
  CHECK(value["a"][4].is_number_float());
  CHECK(value["b"]["c"].is_null());
  CHECK(value["b"]["d"] == true);
  CHECK(value["b"][""].get<std::string>() == std::string("\xC3\xA9\0\xF0\x9F\x98\x80", 7));
  CHECK(value["e"] == Json::array());
  CHECK(value["f"] == Json::object());
  CHECK(value["g"] == Json::array({Json::array(), {{"h", Json::array({Json::object()})}}}));
  CHECK(parse_json("7", "x") == 7);
  CHECK(parse_json("\"s\"", "x") == "s");
  CHECK(parse_json(" null\n", "x").is_null());
}

TEST_CASE("errors in JSON name the place, the line and the column") {
  check_input_error([] { (void)parse_json("{\"a\": 1,\n  \"b\" 2}", "cfg.json"); },
                    "cfg.json: line 2, column 7: ", "':'");
  check_input_error([] { (void)parse_json("", "cfg.json"); }, "cfg.json: line 1, column 0: ");
  check_input_error([] { (void)parse_json("[1, 2", "cfg.json"); }, "cfg.json: line 1, column 5: ");
}

TEST_CASE("a duplicate key is refused with its name, at any depth and however it is written") {
  check_input_error([] { (void)parse_json(R"({"a": 1, "b": 2, "a": 1})", "f"); },
                    "f: line 1, column 20: duplicate key \"a\"");
  check_input_error([] { (void)parse_json("{\"x\": [0, {\"k\": {}, \n\"k\": []}]}", "f"); },
                    "f: line 2, column 3: duplicate key \"k\"");
  check_input_error([] { (void)parse_json(R"({"\u0061b": 1, "ab": 2})", "f"); }, "duplicate key \"ab\"");
  check_input_error([] { (void)parse_json(R"({"a\n": 1, "a\n": 2})", "f"); }, "duplicate key \"a\\n\"");
  // The same key in different objects is no duplicate.
  CHECK(parse_json(R"({"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]})", "f")["b"][1]["a"] == 2);
}

TEST_CASE("what is not JSON is refused") {
  for (const std::string_view text : {"NaN",
                                      "[NaN]",
                                      "Infinity",
                                      "-Infinity",
                                      "[-inf]",
                                      "nan",
                                      "{\"a\": 1} x",
                                      "{} {}",
                                      "1 2",
                                      "[1,]",
                                      "{\"a\": 1,}",
                                      "{a: 1}",
                                      "{'a': 1}",
                                      "// c\n1",
                                      "/* c */ 1",
                                      "+1",
                                      "01",
                                      ".5",
                                      "5.",
                                      "0x1",
                                      "1e999",
                                      "-1e999",
                                      "True",
                                      "\"\t\"",
                                      "\"\\x41\"",
                                      "\"\\ud800\"",
                                      "\"\\udc00\"",
                                      "\"unterminated",
                                      "{\"a\"}",
                                      "[",
                                      "]",
                                      "{",
                                      "}",
                                      "{\"a\":}",
                                      ",",
                                      "nul",
                                      "\xff",
                                      "\"\xff\"",
                                      "\"\xC3\"",
                                      "\"\xC0\x80\"",
                                      "\"\xED\xA0\x80\"",
                                      "\"\xF4\x90\x80\x80\"",
                                      "\xFF\xFE[]"}) {
    CAPTURE(text);
    check_input_error([&] { (void)parse_json(text, "f.json"); }, "f.json: line 1");
  }
  // nlohmann's lexer ends at a zero byte.
  for (const std::string_view text :
       {std::string_view("{}\0", 3), std::string_view("{}\0garbage", 10), std::string_view("1\0", 2),
        std::string_view("\0", 1), std::string_view("[1,\0 2]", 7)}) {
    check_input_error([&] { (void)parse_json(text, "f.json"); }, "f.json: line 1");
  }
}

TEST_CASE("messages about bad bytes stay short and printable") {
  const std::string junk = "\"" + std::string(100'000, 'x') + "\xff\n";
  const std::string sentence = error_of([&] { (void)parse_json(junk, "f"); }).what();
  CHECK(sentence.size() < 400);
  CHECK(std::all_of(sentence.begin(), sentence.end(), [](char c) { return c >= ' ' && c <= '~'; }));
  const std::string key = in_quotes(std::string(100'000, 'k'));
  CHECK(std::string(error_of([&] { (void)parse_json("{" + key + ":1," + key + ":2}", "f"); }).what()).size() <
        400);
}

TEST_CASE("nesting is bounded, and a million brackets overflow no stack") {
  const auto nested = [](std::size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); };
  CHECK(parse_json(nested(64), "f").is_array());
  check_input_error([&] { (void)parse_json(nested(65), "f"); },
                    "f: line 1, column 65: ", "more than 64 levels");
  check_input_error([&] { (void)parse_json(nested(1'000'000), "f"); }, "more than 64 levels");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  check_input_error([&] { (void)parse_json(objects, "f"); }, "more than 64 levels");
  CHECK(parse_json("[[1], [2]]", "f", 2).size() == 2);
  check_input_error([] { (void)parse_json("[[1], [[2]]]", "f", 2); }, "more than 2 levels");
  CHECK(parse_json("3", "f", 0) == 3);
}

TEST_CASE("a quoted name is one line of valid UTF-8") {
  CHECK(json_quoted("a.b") == "\"a.b\"");
  CHECK(json_quoted("a\"\\\n\x01") == "\"a\\\"\\\\\\n\\u0001\"");
  CHECK(json_quoted("\xC3\xA9") == "\"\xC3\xA9\"");
  CHECK(json_quoted("\xff") == "\"\xEF\xBF\xBD\"");
  CHECK(json_quoted(std::string(200, 'x')) == in_quotes(std::string(200, 'x')));
  CHECK(json_quoted(std::string(201, 'x')) == in_quotes(std::string(200, 'x')) + "...");
  CHECK(json_quoted(std::string(199, 'x') + "\xC3\xA9") ==
        in_quotes(std::string(199, 'x') + "\xEF\xBF\xBD") + "...");
}

TEST_CASE("a JSON file is read whole, and what cannot be read is named with the reason") {
  const TempDir dir;
  CHECK(read_json_file(dir.write("a.json", "{\"n\": [1, 2]}\n"))["n"][1] == 2);
  const std::string large = "[\"" + std::string(300'000, 'x') + "\"]";
  CHECK(read_json_file(dir.write("large.json", large), large.size())[0].get<std::string>().size() == 300'000);
  check_input_error([&] { (void)read_json_file(dir.path("large.json"), large.size() - 1); }, "large.json",
                    std::to_string(large.size() - 1));
  check_input_error([&] { (void)read_json_file(dir.path("missing.json")); }, "missing.json",
                    "No such file or directory");
  check_input_error([&] { (void)read_json_file(dir.path("a.json") + "/b"); }, "a.json/b", "Not a directory");
  check_input_error([&] { (void)read_json_file(dir.path("")); }, dir.path(""), "directory");
  check_input_error([&] { (void)read_json_file(dir.write("bad.json", "{\n\"a\": }")); },
                    "bad.json: line 2, column 6: ");
  check_input_error([&] { (void)read_json_file(dir.write("empty.json", "")); }, "empty.json: line 1");
  check_input_error([&] { (void)read_json_file("/dev/zero"); }, "/dev/zero", "not a regular file");
}

TEST_CASE("a pipe or a socket is refused at once, not waited for") {
  const TempDir dir;
  REQUIRE(::mkfifo(dir.path("pipe").c_str(), 0600) == 0);
  check_input_error([&] { (void)read_json_file(dir.path("pipe")); }, dir.path("pipe"), "not a regular file");
  REQUIRE(::mknod(dir.path("socket").c_str(), S_IFSOCK | 0600, 0) == 0);
  check_input_error([&] { (void)read_json_file(dir.path("socket")); }, dir.path("socket"), "cannot open");
}

TEST_CASE("a link that leads nowhere is there, and what cannot be looked for is an error") {
  const TempDir dir;
  CHECK(is_there(dir.write("file", "")));
  CHECK_FALSE(is_there(dir.path("none")));
  CHECK_FALSE(is_there(dir.path("file/none")));
  std::filesystem::create_symlink("none", dir.path("dangling"));
  CHECK(is_there(dir.path("dangling")));
  check_input_error([&] { (void)is_there(dir.path(std::string(300, 'x'))); }, dir.path("xxx"), "too long");
}
