// Checkpoints of one file or of shards with an index: found, whole, and every tensor where it should be.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/index.hpp"
#include "refit/checkpoint/checkpoint.hpp"
#include "support/catch.hpp"
#include "support/error_of.hpp"
#include "support/lowered_limit.hpp"
#include "support/temp_dir.hpp"

using namespace refit;
using namespace refit::checkpoint;

namespace {

namespace fs = std::filesystem;

constexpr char index_file[] = "model.safetensors.index.json";

/// A tensor of bytes, all of one value.
struct Bytes {
  std::string name;
  std::size_t size;
  char value;
};

std::string file_of(std::initializer_list<Bytes> tensors) {
  std::vector<TensorSpec> specs;
  std::string data;
  for (const Bytes& tensor : tensors) {
    specs.push_back({tensor.name, {tensor.size}, DType::u8});
    data.append(tensor.size, tensor.value);
  }
  return make_header(specs, {}) + data;
}

/// An index of (tensor, shard) with whatever text stands before its weight_map.
std::string index_of(std::initializer_list<std::pair<std::string, std::string>> places,
                     const std::string& before = "") {
  std::string map;
  for (const auto& [tensor, shard] : places) {
    map += fmt::format("{}\"{}\":\"{}\"", map.empty() ? "" : ",", tensor, shard);
  }
  return fmt::format("{{{}\"weight_map\":{{{}}}}}", before, map);
}

/// Two shards of three tensors, `index` beside them.
struct TwoShards {
  explicit TwoShards(const std::string& before = "") {
    dir.write("x.safetensors", file_of({{"b", 2, 'b'}, {"a", 3, 'a'}}));
    dir.write("y.safetensors", file_of({{"c", 4, 'c'}}));
    write_index({{"a", "x.safetensors"}, {"b", "x.safetensors"}, {"c", "y.safetensors"}}, before);
  }
  void write_index(std::initializer_list<std::pair<std::string, std::string>> places,
                   const std::string& before = "") const {
    dir.write(index_file, index_of(places, before));
  }
  [[nodiscard]] Checkpoint open() const { return Checkpoint::open(dir.path("")); }
  template <typename... Parts>
  void check_refused(const Parts&... parts) const {
    check_input_error([&] { (void)open(); }, index_file, parts...);
  }
  TempDir dir;
};

std::string text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string text(const Checkpoint& checkpoint, const std::string& name) {
  return text(checkpoint.data(checkpoint.at(name)));
}

std::string names_of(const Checkpoint& checkpoint) {
  std::string names;
  for (const Checkpoint::Tensor& tensor : checkpoint.tensors()) names += tensor.spec.name + " ";
  return names;
}

template <typename... Parts>
void check_index_refused(const std::string& index, const Parts&... parts) {
  CAPTURE(index);
  check_input_error([&] { (void)parse_index(index, "i.json"); }, "i.json", parts...);
}

}  // namespace

// ---- where a checkpoint is

TEST_CASE("a directory with an index is read shard by shard") {
  const TwoShards files;
  const Checkpoint checkpoint = files.open();
  CHECK(checkpoint.path() == files.dir.path(""));
  CHECK(checkpoint.directory() == files.dir.path(""));
  CHECK(checkpoint.index_path() == files.dir.path(index_file));
  REQUIRE(checkpoint.shards().size() == 2);
  CHECK(checkpoint.shards()[1].path() == files.dir.path("y.safetensors"));
  CHECK(names_of(checkpoint) == "b a c ");  // in the order of their bytes
  CHECK(checkpoint.bytes() == 9);
  CHECK(text(checkpoint, "a") == "aaa");
  CHECK(text(checkpoint, "b") == "bb");
  CHECK(text(checkpoint, "c") == "cccc");
  CHECK(checkpoint.at("b").shard == 0);
  CHECK(checkpoint.at("c").shard == 1);
  CHECK(checkpoint.at("c").spec == TensorSpec{"c", {4}, DType::u8});
  CHECK(checkpoint.find("d") == nullptr);
  CHECK(checkpoint.find("a") == &checkpoint.at("a"));
  CHECK(checkpoint.place(checkpoint.at("c")) ==
        fmt::format("{}: tensor \"c\"", files.dir.path("y.safetensors")));
  check_input_error([&] { (void)checkpoint.at("d"); }, files.dir.path(""), "no tensor \"d\"");
}

TEST_CASE("an index file, and a directory without a slash, are the same checkpoint") {
  const TwoShards files;
  const std::string directory = fs::path(files.dir.path("")).parent_path().string();
  CHECK(names_of(Checkpoint::open(directory)) == "b a c ");
  const Checkpoint by_index = Checkpoint::open(files.dir.path(index_file));
  CHECK(names_of(by_index) == "b a c ");
  CHECK(by_index.index_path() == files.dir.path(index_file));
  CHECK(by_index.directory() == directory);
  files.dir.write("other.json", index_of({{"c", "y.safetensors"}}));
  CHECK(names_of(Checkpoint::open(files.dir.path("other.json"))) == "c ");
}

TEST_CASE("a lone file is a checkpoint without a directory") {
  const TempDir dir;
  const std::string path = dir.write("any.name", file_of({{"a", 3, 'a'}}));
  const Checkpoint checkpoint = Checkpoint::open(path);
  CHECK(checkpoint.path() == path);
  CHECK_FALSE(checkpoint.directory());
  CHECK(checkpoint.index_path().empty());
  CHECK(checkpoint.shards().size() == 1);
  CHECK(text(checkpoint, "a") == "aaa");
  CHECK(checkpoint.place(checkpoint.at("a")) == path + ": tensor \"a\"");
}

TEST_CASE("a directory without an index holds model.safetensors or one other file") {
  const TempDir dir;
  check_input_error([&] { (void)Checkpoint::open(dir.path("")); }, dir.path(""), "holds no checkpoint");
  dir.write("config.json", "{}");
  dir.write("._weights.safetensors", "what another system leaves beside a file");
  check_input_error([&] { (void)Checkpoint::open(dir.path("")); }, dir.path(""), "holds no checkpoint");
  dir.write("weights.safetensors", file_of({{"a", 1, 'a'}}));
  const Checkpoint one = Checkpoint::open(dir.path(""));
  CHECK(one.directory() == dir.path(""));
  CHECK(one.index_path().empty());
  CHECK(names_of(one) == "a ");
  dir.write("more.safetensors", file_of({{"b", 1, 'b'}}));
  check_input_error([&] { (void)Checkpoint::open(dir.path("")); }, dir.path(""), "2 .safetensors files",
                    index_file);
  dir.write("model.safetensors", file_of({{"c", 1, 'c'}}));
  CHECK(names_of(Checkpoint::open(dir.path(""))) == "c ");
}

TEST_CASE("a single shard of several without an index is not taken for the whole") {
  for (const auto& [name, is_whole] : {std::pair{"model-00001-of-00002", false},
                                       {"model-00003-of-00010", false},
                                       {"model-of-2", false},
                                       {"model-00001-of-00001", true},
                                       {"piece-of-cake", true},
                                       {"piece-of-", true},
                                       {"piece-of-0", true}}) {
    CAPTURE(name);
    const TempDir dir;
    const std::string path = dir.write(std::string(name) + ".safetensors", file_of({{"a", 1, 'a'}}));
    if (is_whole) {
      CHECK(names_of(Checkpoint::open(dir.path(""))) == "a ");
    } else {
      check_input_error([&] { (void)Checkpoint::open(dir.path("")); }, path, "one of several shards",
                        index_file);
    }
    CHECK(names_of(Checkpoint::open(path)) == "a ");  // who names the file means the file
  }
}

TEST_CASE("what is not there or no checkpoint is refused by name") {
  const TempDir dir;
  check_input_error([&] { (void)Checkpoint::open(dir.path("none")); }, dir.path("none"), "No such file");
  check_input_error([&] { (void)Checkpoint::open(dir.path("none.json")); }, dir.path("none.json"),
                    "No such file");
  check_input_error([&] { (void)Checkpoint::open(""); }, "No such file");
  dir.write("model.safetensors", "short");
  check_input_error([&] { (void)Checkpoint::open(dir.path("")); }, dir.path("model.safetensors"),
                    "has 5 bytes");
  REQUIRE(::symlink("nowhere", dir.path(index_file).c_str()) == 0);
  check_input_error([&] { (void)Checkpoint::open(dir.path("")); }, dir.path(index_file), "No such file");
}

TEST_CASE("a moved checkpoint keeps its tensors") {
  const TwoShards files;
  Checkpoint first = files.open();
  const std::byte* data = first.data(first.at("c")).data();
  Checkpoint second = std::move(first);
  CHECK(second.data(second.at("c")).data() == data);
  const TempDir dir;
  first = Checkpoint::open(dir.write("a.safetensors", file_of({{"z", 1, 'z'}})));
  second = std::move(first);
  CHECK(text(second, "z") == "z");
  CHECK(second.find("c") == nullptr);
}

TEST_CASE("two tensors of one shape stay two tensors") {
  const TempDir dir;
  const Checkpoint checkpoint = Checkpoint::open(dir.write(
      "untied.safetensors", file_of({{"lm_head.weight", 4, '2'}, {"model.embed_tokens.weight", 4, '1'}})));
  CHECK(text(checkpoint, "model.embed_tokens.weight") == "1111");
  CHECK(text(checkpoint, "lm_head.weight") == "2222");
}

TEST_CASE("a checkpoint of more shards than a process may have descriptors opens") {
  const TempDir dir;
  std::string map;
  for (int i = 0; i < 200; ++i) {
    dir.write(fmt::format("{}.safetensors", i), file_of({{fmt::format("t{}", i), 1, 'x'}}));
    map += fmt::format("{}\"t{}\":\"{}.safetensors\"", i == 0 ? "" : ",", i, i);
  }
  dir.write(index_file, "{\"weight_map\":{" + map + "}}");
  const LoweredLimit limit(RLIMIT_NOFILE, 64);
  const Checkpoint checkpoint = Checkpoint::open(dir.path(""));
  CHECK(checkpoint.shards().size() == 200);
  CHECK(checkpoint.bytes() == 200);
  CHECK(text(checkpoint, "t199") == "x");
}

// ---- total_size

TEST_CASE("total_size may be missing, and says whatever its writer counted") {
  for (const std::string before :
       {"", "\"metadata\":{},", "\"metadata\":null,", "\"metadata\":{\"total_size\":null},",
        "\"metadata\":{\"total_size\":9},", "\"metadata\":{\"total_size\":0},", "\"producer\":[],"}) {
    CAPTURE(before);
    CHECK(TwoShards(before).open().bytes() == 9);
  }
}

// ---- the shards against the index

TEST_CASE("the case of a missing shard is refused up front with the shard and its tensor") {
  const std::string directory = std::string(REFIT_TESTS_DIR) + "/cases/index/missing_shard";
  check_input_error([&] { (void)Checkpoint::open(directory); }, directory, index_file,
                    "\"model-00002-of-00002.safetensors\" is missing", "\"lm_head.weight\"");
}

TEST_CASE("every index case was looked at") {
  std::vector<std::string> names;
  for (const auto& item : fs::directory_iterator(std::string(REFIT_TESTS_DIR) + "/cases/index")) {
    names.push_back(item.path().filename().string());
  }
  CHECK(names == std::vector<std::string>{"missing_shard"});
}

TEST_CASE("a missing shard is noticed before another is looked at") {
  const TwoShards files;
  files.dir.write("x.safetensors", "broken");
  fs::remove(files.dir.path("y.safetensors"));
  files.check_refused("\"y.safetensors\" is missing", "holds tensor \"c\"");
  files.write_index({{"a", "y.safetensors"}, {"b", "y.safetensors"}, {"c", "y.safetensors"}});
  files.check_refused("\"y.safetensors\" is missing", "holds tensor \"a\" and 2 more");
}

TEST_CASE("a shard that cannot be read is refused by its own name") {
  const TwoShards files;
  const std::string shard = files.dir.path("y.safetensors");
  const auto refused = [&](std::string_view reason) {
    check_input_error([&] { (void)files.open(); }, shard, reason);
  };
  files.dir.write("y.safetensors", file_of({{"c", 4, 'c'}}).substr(0, 40));
  refused("bytes are missing");
  fs::remove(shard);
  REQUIRE(::symlink("nowhere", shard.c_str()) == 0);
  refused("No such file");
  fs::remove(shard);
  fs::create_directory(shard);
  refused("Is a directory");
}

TEST_CASE("files that the index does not name are ignored, whatever is in them") {
  const TwoShards files;
  files.dir.write("model.safetensors", file_of({{"a", 30, '!'}, {"b", 20, '!'}, {"c", 40, '!'}}));
  files.dir.write("stray.safetensors", "not even a header");
  const Checkpoint checkpoint = files.open();
  CHECK(checkpoint.bytes() == 9);
  CHECK(checkpoint.shards().size() == 2);
  CHECK(text(checkpoint, "a") == "aaa");
}

TEST_CASE("a tensor that its shard lacks is refused with both names") {
  const TwoShards files;
  files.write_index(
      {{"a", "x.safetensors"}, {"b", "x.safetensors"}, {"c", "y.safetensors"}, {"d", "y.safetensors"}});
  files.check_refused("tensor \"d\"", "should be in shard \"y.safetensors\"", "does not hold it");
}

TEST_CASE("a tensor that the index does not name is refused with its shard") {
  const TwoShards files;
  files.write_index({{"a", "x.safetensors"}, {"c", "y.safetensors"}});
  files.check_refused("tensor \"b\" is in shard \"x.safetensors\", but not in the index");
}

TEST_CASE("a tensor in another shard than the index says is refused with both shards") {
  const TwoShards files;
  files.write_index({{"a", "x.safetensors"}, {"b", "y.safetensors"}, {"c", "y.safetensors"}});
  files.check_refused("tensor \"b\" should be in shard \"y.safetensors\", but is in shard \"x.safetensors\"");
}

TEST_CASE("a stale duplicate of a tensor is refused with both shards") {
  const TwoShards files;
  files.dir.write("y.safetensors", file_of({{"a", 3, '?'}, {"c", 4, 'c'}}));
  files.check_refused(
      "tensor \"a\" is in shard \"x.safetensors\", as the index says, and a second time in shard "
      "\"y.safetensors\"");
}

TEST_CASE("one file under two shard names holds every tensor twice") {
  const TempDir dir;
  dir.write("x.safetensors", file_of({{"a", 1, 'a'}, {"b", 1, 'b'}}));
  REQUIRE(::link(dir.path("x.safetensors").c_str(), dir.path("y.safetensors").c_str()) == 0);
  dir.write(index_file, index_of({{"a", "x.safetensors"}, {"b", "y.safetensors"}}));
  check_input_error([&] { (void)Checkpoint::open(dir.path("")); }, "\"b\"", "a second time");
}

// ---- the index

TEST_CASE("an index is read as shards with their tensors, in order of their names") {
  const Index index = parse_index(
      R"({"metadata":{"total_size":18446744073709551615,"k":null},"weight_map":{
        "b":"2.safetensors","a":"2.safetensors","\u00e9":"1.safetensors","":"..safetensors"}})",
      "i.json");
  CHECK(index.total_size == ~0ull);
  CHECK(index.shards == decltype(index.shards){{"..safetensors", {""}},
                                               {"1.safetensors", {"\xC3\xA9"}},
                                               {"2.safetensors", {"a", "b"}}});
  CHECK(parse_index(make_index(index), "again").shards == index.shards);
  CHECK(parse_index(make_index(index), "again").total_size == index.total_size);
}

TEST_CASE("a shard's name is that of a file beside the index") {
  const auto refused = [](const std::string& shard, std::string_view reason) {
    check_index_refused("{\"weight_map\":{\"t.w\":\"" + shard + "\"}}", "tensor \"t.w\"", reason);
  };
  for (const std::string shard : {"/etc/a.safetensors", "../a.safetensors", "a/../b.safetensors",
                                  "./a.safetensors", "sub/a.safetensors", "a.safetensors/"}) {
    refused(shard, "is not a file name");
  }
  refused("a\\u0000.safetensors", "is not a file name");
  for (const std::string shard : {"", ".", "..", "a.bin", "a.safetensors.", "a.SAFETENSORS", "safetensors"}) {
    refused(shard, "is not the name of a .safetensors file");
  }
}

TEST_CASE("an index of another form is refused with what is wrong") {
  for (const std::string index : {"[]", "null", "1", "\"weight_map\""}) {
    check_index_refused(index, "is not a JSON object");
  }
  for (const std::string index : {"", "{", "{}}", "{'a':1}", "{\"a\":\"\xff\"}", "{\"weight_map\":{}"}) {
    check_index_refused(index, "line 1, column");
  }
  check_index_refused("{}", "has no weight_map");
  check_index_refused("{\"Weight_map\":{\"a\":\"a.safetensors\"}}", "has no weight_map");
  for (const std::string map : {"null", "[]", "\"a\"", "0"}) {
    check_index_refused("{\"weight_map\":" + map + "}", "weight_map is not an object");
  }
  check_index_refused("{\"weight_map\":{}}", "weight_map names no tensor");
  for (const std::string shard : {"null", "[]", "{}", "0", "true", "[\"a.safetensors\"]"}) {
    check_index_refused("{\"weight_map\":{\"a\":" + shard + "}}", "tensor \"a\"", "not a string");
  }
  const std::string map = "\"weight_map\":{\"a\":\"a.safetensors\"}}";
  for (const std::string metadata : {"[]", "1", "\"\""}) {
    check_index_refused("{\"metadata\":" + metadata + "," + map, "metadata is not an object");
  }
  for (const std::string total : {"-1", "1.5", "\"9\"", "1e300", "18446744073709551616", "[]"}) {
    check_index_refused("{\"metadata\":{\"total_size\":" + total + "}," + map, "metadata.total_size",
                        "whole number");
  }
}

TEST_CASE("a name that an index gives twice is refused") {
  check_index_refused(R"({"weight_map":{"a":"a.safetensors","a":"b.safetensors"}})", "duplicate key \"a\"");
  check_index_refused(R"({"weight_map":{"a":"a.safetensors","\u0061":"a.safetensors"}})",
                      "duplicate key \"a\"");
  check_index_refused(R"({"weight_map":{"a":"a.safetensors"},"weight_map":{}})",
                      "duplicate key \"weight_map\"");
}

TEST_CASE("an index beyond all bounds is refused") {
  check_index_refused("{\"weight_map\":" + std::string(100'000, '['), "nested more than");
  const TempDir dir;
  const std::string path = dir.write(index_file, "{");
  fs::resize_file(path, std::uintmax_t{1} << 40);  // without blocks
  check_input_error([&] { (void)Checkpoint::open(path); }, path, "is larger than the 67108864 bytes");
}
