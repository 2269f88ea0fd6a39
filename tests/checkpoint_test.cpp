// The safetensors reader: what it accepts comes back bit for bit, what is wrong is refused by name.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <utility>

#include "refit/checkpoint/checkpoint.hpp"
#include "refit/checkpoint/safetensors.hpp"
#include "support/catch.hpp"
#include "support/error_of.hpp"
#include "support/file_bytes.hpp"
#include "support/temp_dir.hpp"

using namespace refit;
using namespace refit::checkpoint;

namespace {

using Metadata = std::map<std::string, std::string>;

const std::string tests_dir = REFIT_TESTS_DIR;

std::string case_file(const std::string& name) {
  return tests_dir + "/cases/st/" + name + ".safetensors";
}

std::string length_field(std::uint64_t length) {
  std::string field(8, '\0');
  std::memcpy(field.data(), &length, 8);
  return field;
}

/// A file with that header text and that many bytes of data.
std::string file_with(const std::string& header, std::size_t data_bytes = 0) {
  return length_field(header.size()) + header + std::string(data_bytes, '\x5A');
}

std::vector<Entry> parse(const std::string& file, Metadata* metadata = nullptr) {
  return parse_header(as_bytes(file), "f.safetensors", metadata);
}

/// CHECKs that a file with this header is refused, naming the file and every part.
template <typename... Parts>
void check_refused(const std::string& header, std::size_t data_bytes, const Parts&... parts) {
  CAPTURE(header);
  const std::string file = file_with(header, data_bytes);
  check_input_error([&] { (void)parse(file); }, "f.safetensors: ", parts...);
}

template <typename T>
std::vector<T> values(const SafetensorsFile& file, const std::string& name) {
  const auto bytes = file.data(name);
  REQUIRE(bytes.size() % sizeof(T) == 0);
  std::vector<T> result(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

std::vector<float> bf16_values(const SafetensorsFile& file, const std::string& name) {
  std::vector<float> result;
  for (const std::uint16_t bits : values<std::uint16_t>(file, name)) result.push_back(from_bf16(bits));
  return result;
}

/// Every tensor's view is the file's own bytes at the place that the header gives.
void check_views(const SafetensorsFile& file) {
  const std::string whole = read_bytes(file.path());
  std::uint64_t header_bytes;
  std::memcpy(&header_bytes, whole.data(), 8);
  std::uint64_t covered = 0;
  for (const Entry& entry : file.entries()) {
    CAPTURE(entry.spec.name);
    CHECK(file.contains(entry.spec.name));
    CHECK(&file.entry(entry.spec.name) == &entry);
    CHECK(entry.begin == covered);
    CHECK(entry.end - entry.begin == entry.spec.bytes());
    covered = entry.end;
    const auto view = file.data(entry);
    REQUIRE(view.size() == entry.end - entry.begin);
    CHECK(std::ranges::equal(view, as_bytes(whole).subspan(8 + header_bytes + entry.begin, view.size())));
  }
  CHECK(8 + header_bytes + covered == whole.size());
}

std::vector<std::string> names_of(const SafetensorsFile& file) {
  std::vector<std::string> names;
  for (const Entry& entry : file.entries()) names.push_back(entry.spec.name);
  return names;
}

constexpr std::size_t large = 1u << 20;

/// A file of one tensor "w" of that many bytes.
std::string write_large(const TempDir& dir, const std::string& name) {
  return dir.write(
      name, file_with(fmt::format(R"({{"w":{{"dtype":"U8","shape":[{0}],"data_offsets":[0,{0}]}}}})", large),
                      large));
}

void check_changed(const SafetensorsFile& file, const std::string& what) {
  const Error error = error_of([&] { file.check_unchanged(); });
  CHECK(error.kind() == ErrorKind::runtime);
  CHECK(std::string(error.what()).starts_with(file.path() + ": " + what));
}

}  // namespace

// ---- the case files

TEST_CASE("tensors of odd sizes and mixed dtypes come back bit for bit from unaligned places") {
  const auto file = SafetensorsFile::open(case_file("valid_misaligned_mixed_dtype"));
  check_views(file);
  CHECK(file.metadata() == Metadata{{"format", "pt"}});
  CHECK(names_of(file) == std::vector<std::string>{"a.bf16_len3", "b.f32_len5", "c.u8_len3", "d.bf16_2x2",
                                                   "e.f32_scalar", "f.i64_len1"});
  CHECK(file.entry("b.f32_len5").begin == 6);
  CHECK(file.entry("d.bf16_2x2").begin == 29);
  CHECK(file.entry("f.i64_len1").begin == 41);
  CHECK(file.entry("d.bf16_2x2").spec == TensorSpec{"d.bf16_2x2", {2, 2}, DType::bf16});
  CHECK(file.entry("e.f32_scalar").spec.shape.empty());
  CHECK(bf16_values(file, "a.bf16_len3") == std::vector<float>{1, -2, 0.5});
  CHECK(values<float>(file, "b.f32_len5") == std::vector<float>{1.00000012f, -3.25f, 65504.f, 1e-30f, 0.1f});
  CHECK(values<std::uint8_t>(file, "c.u8_len3") == std::vector<std::uint8_t>{1, 2, 255});
  CHECK(bf16_values(file, "d.bf16_2x2") == std::vector<float>{0.25, 0.75, -0.125, 3});
  CHECK(values<float>(file, "e.f32_scalar") == std::vector<float>{7.5});
  CHECK(values<std::int64_t>(file, "f.i64_len1") == std::vector<std::int64_t>{-2});
}

TEST_CASE("zero-size tensors, a scalar and empty metadata are accepted, and survive a write") {
  const auto file = SafetensorsFile::open(case_file("valid_zero_size_and_empty_metadata"));
  check_views(file);
  CHECK(file.metadata().empty());
  REQUIRE(file.entries().size() == 5);
  CHECK(file.entry("empty_vec").spec == TensorSpec{"empty_vec", {0}, DType::f32});
  CHECK(file.entry("empty_mat").spec == TensorSpec{"empty_mat", {0, 64}, DType::bf16});
  CHECK(file.entry("empty_tail").spec == TensorSpec{"empty_tail", {3, 0}, DType::f32});
  CHECK(file.data("empty_vec").empty());
  CHECK(file.data("empty_mat").empty());
  CHECK(file.data("empty_tail").empty());
  CHECK(file.entry("mat").spec == TensorSpec{"mat", {2, 32}, DType::bf16});
  CHECK(file.data("mat").size() == 128);
  CHECK(file.entry("scalar").spec == TensorSpec{"scalar", {}, DType::f32});
  CHECK(values<float>(file, "scalar") == std::vector<float>{0.5});

  std::vector<TensorSpec> specs;
  std::string data;
  for (const Entry& entry : file.entries()) {
    specs.push_back(entry.spec);
    const auto view = file.data(entry);
    data.append(reinterpret_cast<const char*>(view.data()), view.size());
  }
  const TempDir dir;
  const auto again = SafetensorsFile::open(dir.write("again.safetensors", make_header(specs, {}) + data));
  check_views(again);
  REQUIRE(again.entries().size() == 5);
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(again.entries()[i].spec == specs[i]);
    CHECK(std::ranges::equal(again.data(again.entries()[i]), file.data(file.entries()[i])));
  }
}

TEST_CASE("an FP32 router bias stays FP32, and its order shows that no value was cast") {
  const auto file = SafetensorsFile::open(case_file("router_bias_fp32"));
  check_views(file);
  const std::string name = "model.layers.3.mlp.gate.e_score_correction_bias";
  CHECK(file.entry(name).spec == TensorSpec{name, {8}, DType::f32});
  CHECK(file.data(name).size() == 32);
  std::vector<float> expected;
  for (const int k : {5, 2, 7, 1, 6, 3, 8, 4}) expected.push_back(static_cast<float>(3.0 + k * 0.0007));
  const auto bias = values<float>(file, name);
  CHECK(bias == expected);
  std::vector<int> order{0, 1, 2, 3, 4, 5, 6, 7};
  std::sort(order.begin(), order.end(), [&](int a, int b) { return bias[a] > bias[b]; });
  CHECK(order == std::vector<int>{6, 2, 4, 0, 7, 5, 1, 3});
  CHECK(file.entry("model.layers.3.mlp.gate.weight").spec.shape == Shape{8, 64});
  CHECK(file.entry("model.layers.3.mlp.experts.0.down_proj.weight").spec.shape == Shape{64, 32});
}

TEST_CASE("the blocks at rounding boundaries hold the documented values") {
  const auto file = SafetensorsFile::open(case_file("mxfp8_scale_boundaries"));
  check_views(file);
  CHECK(file.entry("blocks").spec == TensorSpec{"blocks", {11, 32}, DType::bf16});
  CHECK(file.entry("k96_rows130").spec == TensorSpec{"k96_rows130", {130, 96}, DType::bf16});
  constexpr float tiny = 0x1p-10f;
  std::vector<std::vector<float>> rows{
      {0, 0, 0, 0},
      {448, 1, -1, 0.5},
      {450, 1, -1, 0.5},
      {510, 254, -254, 1},
      {512, 256, -256, 1},
      {1.75, 0.0703125, -0.0703125, 0.5},
      {1.7578125, 0.0703125, -0.0703125, 0.5},
      {-448, -17, 17, 19},
      {448, -0.f, tiny, 3 * tiny},
      {448, 0x1p-9f, 0x1p-11f, -tiny},
      {0, 0, 0, 0},
  };
  std::vector<float> expected;
  for (auto& row : rows) {
    row.resize(32);
    expected.insert(expected.end(), row.begin(), row.end());
  }
  expected.back() = 0.0146484375;
  const auto blocks = bf16_values(file, "blocks");
  REQUIRE(blocks.size() == expected.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    CAPTURE(i);
    CHECK(std::bit_cast<std::uint32_t>(blocks[i]) == std::bit_cast<std::uint32_t>(expected[i]));
  }
}

TEST_CASE("a header length near 2^64 is refused before it is added to or allocated") {
  const std::string path = case_file("header_len_huge");
  check_input_error([&] { (void)SafetensorsFile::open(path); }, path, "header length 18446744073709551608",
                    "100000000");
}

TEST_CASE("a file that lost its end is refused with the number of missing bytes") {
  const std::string path = case_file("truncated_data");
  check_input_error([&] { (void)SafetensorsFile::open(path); }, path, "70 bytes are missing", "4160", "4090",
                    "\"model.embed_tokens.weight\"");
}

TEST_CASE("overlapping tensors are refused with both names") {
  const std::string path = case_file("overlapping_offsets");
  check_input_error([&] { (void)SafetensorsFile::open(path); }, path, "\"a\" (bytes 0 to 32)",
                    "\"b\" (bytes 16 to 48)", "overlap");
}

TEST_CASE("a shape that needs other bytes than its offsets is refused with both sizes") {
  const std::string path = case_file("shape_vs_offsets");
  check_input_error([&] { (void)SafetensorsFile::open(path); }, path,
                    "\"model.layers.0.mlp.down_proj.weight\"", "[64, 64]", "8192 bytes", "[0, 64] cover 64");
}

TEST_CASE("every case file was looked at") {
  std::set<std::string> names;
  for (const auto& item : std::filesystem::directory_iterator(tests_dir + "/cases/st")) {
    names.insert(item.path().stem().string());
  }
  CHECK(names == std::set<std::string>{"header_len_huge", "mxfp8_scale_boundaries", "overlapping_offsets",
                                       "router_bias_fp32", "shape_vs_offsets", "truncated_data",
                                       "valid_misaligned_mixed_dtype", "valid_zero_size_and_empty_metadata"});
}

TEST_CASE("the golden files open with the tensors that their README lists") {
  const auto open = [](const std::string& name) {
    auto file = SafetensorsFile::open(tests_dir + "/golden/" + name + ".safetensors");
    check_views(file);
    return file;
  };
  CHECK(open("moe_shuffle").entries().size() == 28);
  CHECK(open("quantize_cases").entries().size() == 133);
  CHECK(open("scale_swizzle").entries().size() == 14);
  const auto sweep = open("quantize_sweep");
  CHECK(sweep.entries().size() == 33);
  CHECK(sweep.metadata().at("sweep.input_sha256").size() == 64);
  CHECK(sweep.entry("sweep.pattern").spec == TensorSpec{"sweep.pattern", {32768}, DType::i16});
  std::vector<std::uint16_t> even;
  for (unsigned p = 0; p < 65536; ++p) {
    if (std::popcount(p) % 2 == 0) even.push_back(static_cast<std::uint16_t>(p));
  }
  CHECK(values<std::uint16_t>(sweep, "sweep.pattern") == even);
}

// ---- files that change while they are open

TEST_CASE("of a file that is cut short while it is read zeros are read, and that is said") {
  const TempDir dir;
  const std::string path = write_large(dir, "cut.safetensors"), other = write_large(dir, "other.safetensors");
  const auto file = SafetensorsFile::open(path), whole = SafetensorsFile::open(other);
  file.check_unchanged();
  CHECK(file.data("w").back() == std::byte{0x5A});
  std::filesystem::resize_file(path, large / 2);
  const auto bytes = file.data("w");
  CHECK(bytes[0] == std::byte{0x5A});
  for (std::size_t i = bytes.size(); i > bytes.size() / 2 + 4096; i -= 4096) {  // again and again, backwards
    CHECK(bytes[i - 1] == std::byte{0});
  }
  CHECK(bytes[large / 4] == std::byte{0x5A});
  check_changed(file, "became shorter while it was read");
  std::filesystem::resize_file(path, bytes.size() + 8 + 64);
  CHECK_THROWS_AS(file.check_unchanged(), Error);  // as long again, but zeros were read
  whole.check_unchanged();
  CHECK(whole.data("w").back() == std::byte{0x5A});
}

TEST_CASE("a file that is rewritten, replaced or removed while it is read is named") {
  const TempDir dir;
  const auto opened = [&] { return SafetensorsFile::open(write_large(dir, "file.safetensors")); };
  {
    const auto file = opened();
    std::filesystem::last_write_time(file.path(),
                                     std::filesystem::file_time_type::clock::now() + std::chrono::seconds(5));
    check_changed(file, "changed while it was read");
  }
  {
    const auto file = opened();
    std::filesystem::rename(write_large(dir, "new"), file.path());
    check_changed(file, "was replaced by another file while it was read");
  }
  const auto file = opened();
  std::filesystem::remove(file.path());
  check_changed(file, "was removed while it was read: No such file");
}

TEST_CASE("who reads a checkpoint hears of a change instead of what came of it") {
  const TempDir dir;
  const Checkpoint checkpoint = Checkpoint::open(write_large(dir, "file.safetensors"));
  int calls = 0;
  read_unchanged({&checkpoint, nullptr}, [&] { ++calls; });
  CHECK(calls == 1);
  check_input_error([&] { read_unchanged({&checkpoint}, [] { fail_input("of its own"); }); }, "of its own");
  std::filesystem::resize_file(checkpoint.path(), 100);
  for (const bool fails : {false, true}) {
    const Error error = error_of([&] {
      read_unchanged({&checkpoint}, [&] {
        if (fails) fail_input("a weight that is zero");
      });
    });
    CHECK(error.kind() == ErrorKind::runtime);
    CHECK(contains(error.what(), "file.safetensors: became shorter while it was read"));
  }
}

TEST_CASE("a bus error that is not a checkpoint's ends the process as it always did") {
  const TempDir dir;
  const std::string path = write_large(dir, "mine");
  const auto open = SafetensorsFile::open(write_large(dir, "file.safetensors"));
  for (const bool sent : {false, true}) {
    CAPTURE(sent);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      if (sent) ::raise(SIGBUS);
      const int fd = ::open(path.c_str(), O_RDWR);
      const auto* const bytes =
          static_cast<const volatile char*>(::mmap(nullptr, large, PROT_READ, MAP_SHARED, fd, 0));
      (void)!::ftruncate(fd, 0);
      ::_exit(bytes[large / 2]);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    // A sanitizer's report ends the process with a code of its own.
    CHECK((WIFSIGNALED(status) ? WTERMSIG(status) == SIGBUS : WEXITSTATUS(status) != 0));
  }
}

// ---- the object

TEST_CASE("an open file knows its tensors by name and says what it does not have") {
  const TempDir dir;
  const std::string path =
      dir.write("one.safetensors", file_with(R"({"w":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})", 3));
  auto file = SafetensorsFile::open(path);
  CHECK(file.path() == path);
  CHECK(file.contains("w"));
  CHECK_FALSE(file.contains("W"));
  CHECK_FALSE(file.contains(""));
  CHECK_FALSE(file.contains("__metadata__"));
  check_input_error([&] { (void)file.entry("x"); }, path, "no tensor \"x\"");
  check_input_error([&] { (void)file.data("x"); }, path, "no tensor \"x\"");

  const std::byte* data = file.data("w").data();
  SafetensorsFile moved = std::move(file);
  CHECK(moved.data("w").data() == data);
  moved = SafetensorsFile::open(case_file("router_bias_fp32"));
  CHECK_FALSE(moved.contains("w"));
}

TEST_CASE("what is no regular file is refused with the reason") {
  const TempDir dir;
  check_input_error([&] { (void)SafetensorsFile::open(dir.path("missing.safetensors")); },
                    "missing.safetensors", "No such file or directory");
  check_input_error([&] { (void)SafetensorsFile::open(dir.path("")); }, dir.path(""), "Is a directory");
  check_input_error([&] { (void)SafetensorsFile::open("/dev/zero"); }, "/dev/zero", "not a regular file");
  REQUIRE(::mkfifo(dir.path("pipe").c_str(), 0600) == 0);
  check_input_error([&] { (void)SafetensorsFile::open(dir.path("pipe")); }, "pipe", "not a regular file");
}

TEST_CASE("files too short for a header length are refused with their size") {
  const TempDir dir;
  for (const std::size_t size : {0u, 1u, 7u}) {
    const std::string path = dir.write("short.safetensors", std::string(size, '\0'));
    check_input_error([&] { (void)SafetensorsFile::open(path); }, path, fmt::format("has {} bytes", size));
  }
}

TEST_CASE("opening many files leaves no descriptor and no mapping behind") {
  const auto open_descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = open_descriptors();
  const auto kept = SafetensorsFile::open(case_file("router_bias_fp32"));
  for (int i = 0; i < 20; ++i) {
    (void)SafetensorsFile::open(case_file("router_bias_fp32"));
    (void)error_of([] { (void)SafetensorsFile::open(case_file("truncated_data")); });
    (void)error_of([] { (void)SafetensorsFile::open(tests_dir); });
  }
  CHECK(open_descriptors() == before);  // a mapping needs no descriptor
  const std::string maps = read_bytes("/proc/self/maps");
  CHECK_FALSE(contains(maps, "truncated_data.safetensors"));
  const auto first = maps.find("router_bias_fp32.safetensors");
  REQUIRE(first != maps.npos);
  CHECK(maps.find("router_bias_fp32.safetensors", first + 1) == maps.npos);
}

// ---- the header length

TEST_CASE("a header length beyond the file or the format's limit is refused") {
  const auto refused = [](std::uint64_t length, std::size_t more_bytes, std::string_view part) {
    CAPTURE(length, more_bytes);
    const std::string file = length_field(length) + std::string(more_bytes, ' ');
    check_input_error([&] { (void)parse(file); }, "f.safetensors: ", part);
  };
  refused(0, 0, "not a JSON object");
  refused(0, 8, "not a JSON object");
  refused(1, 0, "1 bytes are missing");
  refused(10, 7, "3 bytes are missing");
  refused(100'000'000, 2, "99999998 bytes are missing");
  refused(100'000'001, 2, "header length 100000001");
  for (const std::uint64_t length : {1ull << 32, 1ull << 63, ~0ull - 8, ~0ull - 7, ~0ull}) {
    refused(length, 2, fmt::format("header length {}", length));
  }
}

// ---- the header text

TEST_CASE("the header must be one JSON object from its first byte") {
  for (const std::string header :
       {"", " ", "[]", "null", "1", "\"a\"", " {}", "\n{}", "\xEF\xBB\xBF{}", "x{}"}) {
    check_refused(header, 0, "not a JSON object");
  }
  for (const std::string header : {"{", "{}}", "{} x", "{}{}", "{\"a\"}", "{a:1}", "{\"a\":1,}", "{'a':1}",
                                   "{\"\xff\":1}", "{\"a\":NaN}", "{/**/}"}) {
    check_refused(header, 0, "header: line 1, column");
  }
  check_refused(std::string("{}\0\0", 4), 0, "header: line 1, column 3", "zero byte");
  CHECK(parse(file_with("{}")).empty());
  CHECK(parse(file_with("{}      ")).empty());
}

TEST_CASE("a duplicate name is refused with the name") {
  const std::string w = R"("w.weight":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  check_refused("{" + w + "," + w + "}", 1, "header: line 1, column 70", "duplicate key \"w.weight\"");
  check_refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                R"("\u0061":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                2, "duplicate key \"a\"");
  check_refused(R"({"__metadata__":{},"__metadata__":{}})", 0, "duplicate key \"__metadata__\"");
  check_refused(R"({"__metadata__":{"k":"1","k":"2"}})", 0, "duplicate key \"k\"");
  check_refused(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1,
                "duplicate key \"dtype\"");
}

TEST_CASE("nesting that no header has is refused without recursion") {
  check_refused("{\"a\":" + std::string(100'000, '['), 0, "nested more than");
}

TEST_CASE("names may hold any text, and escapes mean the character") {
  Metadata metadata;
  const auto entries =
      parse(file_with(R"({"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                      R"("caf\u00e9":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},)"
                      R"("\ud83d\ude00/\"\\\n":{"dtype":"U8","shape":[1],"data_offsets":[2,3]},)"
                      R"("z\u0000z":{"dtype":"U8","shape":[1],"data_offsets":[3,4]},)"
                      "\"\xE5\xB1\x82\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[4,5]},"
                      R"("__metadata__":{"\u006b":"\t"}})",
                      5),
            &metadata);
  REQUIRE(entries.size() == 5);
  CHECK(entries[0].spec.name.empty());
  CHECK(entries[1].spec.name == "caf\xC3\xA9");
  CHECK(entries[2].spec.name == "\xF0\x9F\x98\x80/\"\\\n");
  CHECK(entries[3].spec.name == std::string("z\0z", 3));
  CHECK(entries[4].spec.name == "\xE5\xB1\x82");
  CHECK(metadata == Metadata{{"k", "\t"}});
  // In a message such a name is still one line.
  check_refused(R"({"a\nb":{"dtype":"U8","shape":[2],"data_offsets":[0,1]}})", 1, R"("a\nb")");
}

// ---- metadata

TEST_CASE("metadata must be an object of strings") {
  for (const std::string value : {"[]", "\"pt\"", "1", "true"}) {
    check_refused("{\"__metadata__\":" + value + "}", 0, "__metadata__ is not an object");
  }
  for (const std::string value : {"null", "[]", "{}", "1", "1.5", "false"}) {
    check_refused("{\"__metadata__\":{\"good\":\"\",\"bad\":" + value + "}}", 0,
                  "__metadata__ \"bad\" is not a string");
  }
  Metadata metadata{{"left", "over"}};
  CHECK(parse(file_with(R"({"__metadata__":{}})"), &metadata).empty());
  CHECK(metadata.empty());
  metadata = {{"left", "over"}};
  CHECK(parse(file_with("{}"), &metadata).empty());
  CHECK(metadata.empty());
}

TEST_CASE("metadata of null is no metadata, as in the files that MLX writes") {
  Metadata metadata{{"left", "over"}};
  const std::string header = R"({"__metadata__":null,"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  CHECK(parse(file_with(header, 1), &metadata).size() == 1);
  CHECK(metadata.empty());
}

// ---- one tensor

TEST_CASE("a tensor needs exactly its three fields, of their types") {
  const auto refused = [](const std::string& tensor, std::string_view part) {
    check_refused("{\"t.w\":" + tensor + "}", 1, "tensor \"t.w\": ", part);
  };
  refused("1", "1 instead of an object");
  refused("null", "null instead of an object");
  refused("[]", "a list instead of an object");
  refused("{}", "has no shape");
  refused(R"({"shape":[1],"data_offsets":[0,1]})", "has no dtype");
  refused(R"({"dtype":"U8","data_offsets":[0,1]})", "has no shape");
  refused(R"({"dtype":"U8","shape":[1]})", "has no data_offsets");
  refused(R"({"dtype":"U8","shape":[1],"data_offsets":[0,1],"strides":[1]})", "\"strides\"");
  refused(R"({"dtype":8,"shape":[1],"data_offsets":[0,1]})", "dtype is 8 instead of a string");
  refused(R"({"dtype":null,"shape":[1],"data_offsets":[0,1]})", "dtype is null");
  refused(R"({"dtype":"U8","shape":1,"data_offsets":[0,1]})", "shape is 1 instead of a list");
  refused(R"({"dtype":"U8","shape":{},"data_offsets":[0,1]})", "shape is an object instead of a list");
  refused(R"({"dtype":"U8","shape":"[1]","data_offsets":[0,1]})", "shape is \"[1]\" instead of a list");
  refused(R"({"dtype":"U8","shape":[1],"data_offsets":1})", "data_offsets is 1 instead of a list");
  refused(R"({"dtype":"U8","shape":[1],"data_offsets":[]})", "data_offsets has 0 numbers");
  refused(R"({"dtype":"U8","shape":[1],"data_offsets":[0]})", "data_offsets has 1 numbers");
  refused(R"({"dtype":"U8","shape":[1],"data_offsets":[0,1,1]})", "data_offsets has 3 numbers");
}

TEST_CASE("unknown and sub-byte dtypes are refused by name") {
  const auto refused = [](const std::string& dtype, std::string_view part) {
    check_refused("{\"t.w\":{\"dtype\":\"" + dtype + "\",\"shape\":[2],\"data_offsets\":[0,1]}}", 1,
                  "tensor \"t.w\": ", dtype, part);
  };
  for (const std::string dtype : {"F4", "F6_E2M3", "F6_E3M2"}) refused(dtype, "smaller than a byte");
  for (const std::string dtype : {"", "bf16", "F8", "C64", "U4", "BF16 "}) refused(dtype, "is unknown");
}

TEST_CASE("every dtype is read with its size") {
  for (const std::string dtype : {"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2", "F8_E8M0", "I64", "I32",
                                  "I16", "I8", "U64", "U32", "U16", "U8", "BOOL"}) {
    CAPTURE(dtype);
    const std::size_t bytes = 3 * size_of(*parse_dtype(dtype));
    const auto header = [&](std::size_t end) {
      return fmt::format(R"({{"t":{{"dtype":"{}","shape":[3],"data_offsets":[0,{}]}}}})", dtype, end);
    };
    const auto entries = parse(file_with(header(bytes), bytes));
    REQUIRE(entries.size() == 1);
    CHECK(name_of(entries[0].spec.dtype) == dtype);
    check_refused(header(bytes + 1), bytes + 1, dtype, fmt::format("needs {} bytes", bytes));
    check_refused(header(bytes - 1), bytes - 1, dtype, fmt::format("needs {} bytes", bytes));
  }
}

TEST_CASE("numbers that are not whole, not positive or too large are refused where they stand") {
  for (const std::string number : {"-1", "-0", "1.0", "1e0", "0.5", "\"1\"", "null", "true", "{}",
                                   "18446744073709551616", "1e300", "-9223372036854775809"}) {
    check_refused("{\"t\":{\"dtype\":\"U8\",\"shape\":[" + number + "],\"data_offsets\":[0,1]}}", 1,
                  "tensor \"t\"", "shape holds", "whole number");
    check_refused("{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[" + number + ",1]}}", 1,
                  "tensor \"t\"", "data_offsets holds", "whole number");
    check_refused("{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0," + number + "]}}", 1,
                  "tensor \"t\"", "data_offsets holds", "whole number");
  }
  check_refused(R"({"t":{"dtype":"U8","shape":[1e999],"data_offsets":[0,1]}})", 1, "header: line 1");
}

TEST_CASE("products and sums that would wrap around are refused") {
  const auto refused = [](const std::string& dtype, const std::string& shape, const std::string& offsets,
                          std::string_view part) {
    check_refused(
        fmt::format(R"({{"t":{{"dtype":"{}","shape":[{}],"data_offsets":[{}]}}}})", dtype, shape, offsets), 8,
        "tensor \"t\"", part);
  };
  refused("U8", "18446744073709551615", "0,18446744073709551615", "shape [18446744073709551615]");
  refused("U8", "4294967296,4294967296", "0,0", "shape [4294967296, 4294967296]");
  refused("F64", "2305843009213693952", "0,0", "shape [2305843009213693952]");  // times 8 wraps to 0
  refused("F64", "2305843009213693953", "0,8", "shape [2305843009213693953]");  // times 8 wraps to 8
  refused("U8", "1152921504606846975", "0,8", "needs 1152921504606846975 bytes");
  refused("U8", "8", "18446744073709551615,7", "end before they begin");
  refused("U8", "8", "8,0", "end before they begin");
  refused("U8", "8", "18446744073709551607,18446744073709551615", "bytes 0 to 18446744073709551607 before");
}

TEST_CASE("a shape with a zero may have any other dimension") {
  const auto entries =
      parse(file_with(R"({"t":{"dtype":"F64","shape":[18446744073709551615,0,2],"data_offsets":[0,0]}})"));
  REQUIRE(entries.size() == 1);
  CHECK(entries[0].spec.shape == Shape{~0ull, 0, 2});
  CHECK(entries[0].spec.bytes() == 0);
}

// ---- the data area

namespace {

std::string bytes_tensor(const std::string& name, std::uint64_t begin, std::uint64_t end) {
  return fmt::format(R"("{}":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}})", name, end - begin, begin,
                     end);
}

}  // namespace

TEST_CASE(
    "tensors must cover the data without gap, overlap or rest, in whatever order the header lists them") {
  const auto header = [](std::initializer_list<std::string> tensors) {
    return fmt::format("{{{}}}", fmt::join(tensors, ","));
  };
  const auto entries = parse(
      file_with(header({bytes_tensor("c", 5, 9), bytes_tensor("a", 2, 5), bytes_tensor("b", 0, 2)}), 9));
  REQUIRE(entries.size() == 3);
  CHECK(entries[0].spec.name == "b");
  CHECK(entries[1].spec.name == "a");
  CHECK(entries[2].spec.name == "c");
  CHECK(entries[2].begin == 5);
  CHECK(entries[2].end == 9);

  check_refused(header({bytes_tensor("a", 1, 4)}), 4, "bytes 0 to 1 before tensor \"a\"");
  check_refused(header({bytes_tensor("a", 0, 4), bytes_tensor("b", 5, 8)}), 8,
                "bytes 4 to 5 before tensor \"b\"");
  check_refused(header({bytes_tensor("a", 0, 4), bytes_tensor("b", 3, 8)}), 8, "\"a\"", "\"b\"", "overlap");
  check_refused(header({bytes_tensor("a", 0, 8), bytes_tensor("b", 2, 4)}), 8, "\"a\"", "\"b\"", "overlap");
  check_refused(header({bytes_tensor("a", 0, 4), bytes_tensor("b", 0, 4)}), 4, "\"a\"", "\"b\"", "overlap");
  check_refused(header({bytes_tensor("a", 0, 4)}), 5, "1 bytes after the last tensor");
  check_refused("{}", 3, "3 bytes after the last tensor");
  check_refused(header({bytes_tensor("a", 0, 4)}), 3, "1 bytes are missing", "tensor \"a\"");
  check_refused(header({bytes_tensor("a", 0, 4), bytes_tensor("b", 4, 8)}), 4, "4 bytes are missing",
                "tensor \"b\"");
  check_refused(header({bytes_tensor("a", 0, 1ull << 59)}), 4, "576460752303423484 bytes are missing");
}

TEST_CASE("a zero-size tensor may stand between tensors, and nowhere else") {
  const auto header = [](std::uint64_t at) {
    return fmt::format("{{{},{},{}}}", bytes_tensor("a", 0, 4), bytes_tensor("empty", at, at),
                       bytes_tensor("b", 4, 8));
  };
  for (const std::uint64_t at : {0u, 4u, 8u}) {
    CAPTURE(at);
    CHECK(parse(file_with(header(at), 8)).size() == 3);
  }
  for (const std::uint64_t at : {1u, 3u, 5u}) check_refused(header(at), 8, "\"empty\"", "overlap");
  for (const std::uint64_t at : {9u, 1000u}) check_refused(header(at), 8, "before tensor \"empty\"");
}

// ---- hostile bytes

TEST_CASE("every prefix and every one-byte extension of a valid file is refused") {
  const std::string file = read_bytes(case_file("valid_misaligned_mixed_dtype"));
  REQUIRE(parse(file).size() == 6);
  for (std::size_t size = 0; size < file.size(); ++size) {
    CAPTURE(size);
    // A copy of its own, so that a read past the end is outside of an allocation.
    const std::vector<char> prefix(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
    const refit::Error error =
        error_of([&] { (void)parse_header(std::as_bytes(std::span(prefix)), "f.safetensors"); });
    CHECK(error.kind() == ErrorKind::input);
  }
  CHECK(error_of([&] { (void)parse(file + '\0'); }).kind() == ErrorKind::input);
}

TEST_CASE("a header with any one byte changed is either read consistently or refused") {
  const std::string file = read_bytes(case_file("valid_misaligned_mixed_dtype"));
  std::size_t refused = 0;
  for (std::size_t at = 0; at < 432; ++at) {
    for (const char byte : {'\0', '\x01', '"', '0', '9', '{', '}', '[', ',', '\\', '\x80', '\xff'}) {
      std::string changed = file;
      changed[at] = byte;
      try {
        std::uint64_t covered = 0;
        for (const Entry& entry : parse(changed)) {
          REQUIRE(entry.begin == covered);
          REQUIRE(entry.end - entry.begin == entry.spec.bytes());
          covered = entry.end;
        }
        REQUIRE(covered == 49);
      } catch (const Error& error) {
        REQUIRE(error.kind() == ErrorKind::input);
        ++refused;
      }
    }
  }
  CHECK(refused > 3000);
}

// ---- writing

TEST_CASE("a written header has the bytes that the format asks for") {
  const std::string header = make_header({{"b", {2, 3}, DType::bf16}, {"a", {}, DType::f32}}, {{"k", "v"}});
  const std::string json =
      R"({"__metadata__":{"k":"v"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[12,16]}})";
  const std::string padding((8 - json.size() % 8) % 8, ' ');
  CHECK(header == length_field(json.size() + padding.size()) + json + padding);
  CHECK(header.size() % 8 == 0);
}

TEST_CASE("a file without tensors is readable, with and without metadata") {
  const TempDir dir;
  CHECK(make_header({}, {}) == length_field(8) + "{}      ");
  const auto nothing = SafetensorsFile::open(dir.write("nothing.safetensors", make_header({}, {})));
  CHECK(nothing.entries().empty());
  CHECK(nothing.metadata().empty());
  const auto step = SafetensorsFile::open(dir.write("step.safetensors", make_header({}, {{"step", "1"}})));
  CHECK(step.entries().empty());
  CHECK(step.metadata() == Metadata{{"step", "1"}});
}

TEST_CASE("any header that is written is read back as it was") {
  std::mt19937_64 random(20240607);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  const std::vector<std::string> odd_texts{
      "",           "\"",   "\\", "\n\t\x01", std::string("\0", 1), "\x7f", "\xC3\xA9", "\xF0\x9F\x98\x80",
      "__metadata", "a/b.c"};
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    std::vector<TensorSpec> specs;
    std::uint64_t bytes = 0;
    for (std::uint64_t i = below(20); i > 0; --i) {
      TensorSpec spec;
      spec.name = fmt::format("{:03}", specs.size()) + odd_texts[below(odd_texts.size())];
      for (std::uint64_t d = below(4); d > 0; --d) spec.shape.push_back(below(6));
      spec.dtype = static_cast<DType>(below(16));
      bytes += spec.bytes();
      specs.push_back(std::move(spec));
    }
    // Tensors without bytes share their place with the next one and are told apart by name only, which grows
    // here.
    std::stable_sort(specs.begin(), specs.end(), [](const TensorSpec& a, const TensorSpec& b) {
      return a.bytes() == 0 && b.bytes() != 0;
    });
    Metadata metadata;
    for (std::uint64_t i = below(4); i > 0; --i) {
      metadata[odd_texts[below(odd_texts.size())]] = odd_texts[below(odd_texts.size())];
    }
    const std::string header = make_header(specs, metadata);
    REQUIRE(header.size() % 8 == 0);
    Metadata read_metadata;
    std::vector<TensorSpec> read_specs;
    for (const Entry& entry : parse(header + std::string(bytes, 'x'), &read_metadata)) {
      read_specs.push_back(entry.spec);
    }
    REQUIRE(read_specs == specs);
    REQUIRE(read_metadata == metadata);
    // The data area has the size that the header speaks of, not one byte more.
    (void)error_of([&] { (void)parse(header + std::string(bytes + 1, 'x')); });
  }
}

TEST_CASE("headers that could not be read back are not written") {
  const auto u8 = [](const std::string& name, Shape shape) {
    return TensorSpec{name, std::move(shape), DType::u8};
  };
  check_input_error(
      [&] {
        (void)make_header({u8("a", {1}), u8("b", {1}), u8("a", {2})}, {});
      },
      "second \"a\"");
  check_input_error([&] { (void)make_header({u8("__metadata__", {1})}, {}); }, "\"__metadata__\"");
  check_input_error([&] { (void)make_header({u8("a\xff", {1})}, {}); }, "not valid UTF-8");
  check_input_error([&] { (void)make_header({}, {{"k", "\xff"}}); }, "not valid UTF-8");
  check_input_error([&] { (void)make_header({}, {{"\xff", "v"}}); }, "not valid UTF-8");
  check_input_error([&] { (void)make_header({u8("a", {1ull << 62})}, {}); }, "[4611686018427387904]");
  std::vector<TensorSpec> huge;
  for (int i = 0; i < 17; ++i) huge.push_back(u8(fmt::format("t{}", i), {(1ull << 60) - 1}));
  check_input_error([&] { (void)make_header(huge, {}); }, "\"t8\"", "2^63");
  check_input_error([] { (void)make_header({}, {{"k", std::string(100'000'000, 'v')}}); }, "100000000");
}

TEST_CASE("a header of 45,395 tensors is read back") {
  std::vector<TensorSpec> specs;
  for (int i = 0; i < 45'395; ++i) {
    specs.push_back(
        {fmt::format("model.layers.{}.mlp.experts.{}.gate_proj.weight", i / 768, i % 768), {0, 7168}});
  }
  std::sort(specs.begin(), specs.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto entries = parse(make_header(specs, {}));
  REQUIRE(entries.size() == specs.size());
  CHECK(std::ranges::equal(entries, specs, {}, &Entry::spec));
}
