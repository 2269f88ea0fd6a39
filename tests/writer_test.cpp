// Written checkpoints: whole under their name or not there at all, and what a reader gets is what was given.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "refit/checkpoint/checkpoint.hpp"
#include "refit/checkpoint/writer.hpp"
#include "support/catch.hpp"
#include "support/error_of.hpp"
#include "support/file_bytes.hpp"
#include "support/lowered_limit.hpp"
#include "support/temp_dir.hpp"

using namespace refit;
using namespace refit::checkpoint;

namespace {

namespace fs = std::filesystem;

constexpr char index_file[] = "model.safetensors.index.json";

/// The names in a directory, hidden ones too.
std::set<std::string> names_in(const std::string& directory) {
  std::set<std::string> names;
  for (const auto& item : fs::directory_iterator(directory)) names.insert(item.path().filename().string());
  return names;
}

using Names = std::set<std::string>;

TensorSpec u8(const std::string& name, std::uint64_t bytes) {
  return {name, {bytes}, DType::u8};
}

/// The only tensor, "t" of `bytes` bytes, is written and the rest left to the caller.
Writer written(Writer writer, char value) {
  const std::string data(writer.bytes(), value);
  writer.write(0, 0, as_bytes(data));
  return writer;
}

Writer one_file(const std::string& path, bool overwrite = false, char value = 'n') {
  return written(Writer::file(path, {u8("t", 4)}, {.overwrite = overwrite}), value);
}

Writer one_directory(const std::string& path, bool overwrite = false, char value = 'n') {
  return written(Writer::directory(path, {u8("t", 4)}, {.overwrite = overwrite}), value);
}

std::string value_of(const std::string& path) {
  const Checkpoint checkpoint = Checkpoint::open(path);
  const auto bytes = checkpoint.data(checkpoint.at("t"));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// CHECKs that `call` throws Error(runtime) whose sentence has every part.
template <typename Call, typename... Parts>
void check_runtime_error(Call&& call, const Parts&... parts) {
  const refit::Error error = error_of(call);
  CHECK(error.kind() == ErrorKind::runtime);
  for (const std::string_view part : {std::string_view(parts)...}) {
    CAPTURE(error.what(), part);
    CHECK(contains(error.what(), part));
  }
}

mode_t mode_of(const std::string& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

using Contents = std::map<std::string, std::pair<TensorSpec, std::string>>;

Contents read_checkpoint(const std::string& path) {
  const Checkpoint checkpoint = Checkpoint::open(path);
  Contents contents;
  for (const Checkpoint::Tensor& tensor : checkpoint.tensors()) {
    const auto bytes = checkpoint.data(tensor);
    contents[tensor.spec.name] = {tensor.spec,
                                  std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())};
  }
  return contents;
}

/// A file as the format's text describes it, without this library's reader.
void parse_plainly(const std::string& path, Contents& contents) {
  const std::string file = read_bytes(path);
  std::uint64_t length;
  std::memcpy(&length, file.data(), 8);
  const auto header = nlohmann::json::parse(file.substr(8, length));
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") continue;
    const auto begin = value["data_offsets"][0].get<std::size_t>(),
               end = value["data_offsets"][1].get<std::size_t>();
    contents[name] = {{name, value["shape"].get<Shape>(), *parse_dtype(value["dtype"].get<std::string>())},
                      file.substr(8 + length + begin, end - begin)};
  }
}

}  // namespace

// ---- what is written

TEST_CASE("a written file is the header and the tensors one after the other") {
  const TempDir dir;
  const std::vector<TensorSpec> specs{u8("b", 3), {"a", {2}, DType::bf16}};
  Writer writer = Writer::file(dir.path("out.safetensors"), specs, {});
  CHECK(writer.bytes() == 7);
  writer.write(1, 0, as_bytes("aaaa"));
  writer.write(0, 0, as_bytes("bbb"));
  CHECK(names_in(dir.path("")).count("out.safetensors") == 0);
  writer.commit();
  CHECK(names_in(dir.path("")) == Names{"out.safetensors"});
  CHECK(read_bytes(dir.path("out.safetensors")) == make_header(specs, {{"format", "pt"}}) + "bbbaaaa");
}

TEST_CASE("a directory of one shard has no index") {
  const TempDir dir;
  Writer writer =
      Writer::directory(dir.path("out"), {u8("b", 3), u8("a", 2)}, {.shard_bytes = 5, .metadata = {}});
  writer.write(0, 0, as_bytes("bbb"));
  writer.write(1, 0, as_bytes("aa"));
  writer.add_text("config.json", "{}\n");
  writer.commit();
  CHECK(names_in(dir.path("")) == Names{"out"});
  CHECK(names_in(dir.path("out")) == Names{"config.json", "model.safetensors"});
  CHECK(read_bytes(dir.path("out/config.json")) == "{}\n");
  const auto file = SafetensorsFile::open(dir.path("out/model.safetensors"));
  CHECK(file.metadata().empty());
  CHECK(file.entries().front().spec.name == "b");
}

TEST_CASE("shards hold at most their bytes or one tensor, in the given order, and the index names them") {
  const TempDir dir;
  Writer writer = Writer::directory(
      dir.path("out"), {u8("e", 3), u8("d", 2), u8("c", 9), u8("b", 1), u8("a", 4)}, {.shard_bytes = 5});
  for (const auto& [number, text] :
       {std::pair{4, "aaaa"}, {3, "b"}, {2, "ccccccccc"}, {1, "dd"}, {0, "eee"}}) {
    writer.write(static_cast<std::size_t>(number), 0, as_bytes(text));
  }
  writer.commit();
  CHECK(names_in(dir.path("out")) == Names{"model-00001-of-00003.safetensors",
                                           "model-00002-of-00003.safetensors",
                                           "model-00003-of-00003.safetensors", index_file});
  CHECK(read_bytes(dir.path("out/") + index_file) == R"({
  "metadata": {
    "total_size": 19
  },
  "weight_map": {
    "a": "model-00003-of-00003.safetensors",
    "b": "model-00003-of-00003.safetensors",
    "c": "model-00002-of-00003.safetensors",
    "d": "model-00001-of-00003.safetensors",
    "e": "model-00001-of-00003.safetensors"
  }
}
)");
  const Checkpoint checkpoint = Checkpoint::open(dir.path("out"));
  std::string names;
  for (const Checkpoint::Tensor& tensor : checkpoint.tensors()) names += tensor.spec.name;
  CHECK(names == "edcba");
  CHECK(checkpoint.shards()[1].metadata() == std::map<std::string, std::string>{{"format", "pt"}});
}

TEST_CASE("a checkpoint without tensors or without bytes is written and read") {
  const TempDir dir;
  Writer::directory(dir.path("none"), {}, {}).commit();
  CHECK(Checkpoint::open(dir.path("none")).tensors().empty());
  Writer::file(dir.path("step.safetensors"), {}, {.metadata = {{"step", "1"}}}).commit();
  CHECK(SafetensorsFile::open(dir.path("step.safetensors")).metadata().at("step") == "1");
  Writer empty =
      Writer::directory(dir.path("empty"), {u8("a", 0), {"b", {0, 7}, DType::f32}}, {.shard_bytes = 1});
  empty.write(1, 0, {});
  empty.commit();
  CHECK(read_checkpoint(dir.path("empty")).at("b").first == TensorSpec{"b", {0, 7}, DType::f32});
}

TEST_CASE("any tensors over any shards come back bit for bit, whoever reads them") {
  std::mt19937_64 random(20240611);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  const TempDir dir;
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    Contents expected;
    std::vector<TensorSpec> specs;
    for (std::uint64_t i = below(12); i > 0; --i) {
      TensorSpec spec{fmt::format("t\xC3\xA9/\"{}", random()), {}, static_cast<DType>(below(16))};
      for (std::uint64_t d = below(4); d > 0; --d) spec.shape.push_back(below(6));
      std::string data(spec.bytes(), '\0');
      for (char& byte : data) byte = static_cast<char>(random());
      expected[spec.name] = {spec, data};
      specs.push_back(std::move(spec));
    }
    const std::uint64_t shard_bytes = std::vector<std::uint64_t>{0, 1, 100, 1000, 1u << 20}[below(5)];
    const std::string path = dir.path(fmt::format("out{}", round));
    const bool is_file = below(4) == 0;
    Writer writer = is_file ? Writer::file(path, specs, {})
                            : Writer::directory(path, specs, {.shard_bytes = shard_bytes});
    // In pieces, from three threads, each of which has every third piece.
    std::vector<std::tuple<std::size_t, std::uint64_t, std::uint64_t>> pieces;
    for (std::size_t t = 0; t < specs.size(); ++t) {
      for (std::uint64_t at = 0, bytes = specs[t].bytes(); at < bytes;) {
        const std::uint64_t size = std::min(bytes - at, 1 + below(500));
        pieces.emplace_back(t, at, size);
        at += size;
      }
    }
    std::shuffle(pieces.begin(), pieces.end(), random);
    std::vector<std::thread> threads;
    for (std::size_t first = 0; first < 3; ++first) {
      threads.emplace_back([&, first] {
        for (std::size_t i = first; i < pieces.size(); i += 3) {
          const auto [t, at, size] = pieces[i];
          writer.write(t, at, as_bytes(expected.at(specs[t].name).second).subspan(at, size));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    writer.commit();

    REQUIRE(read_checkpoint(path) == expected);
    Contents plainly;
    if (is_file || !fs::exists(path + "/" + index_file)) {
      parse_plainly(is_file ? path : path + "/model.safetensors", plainly);
    } else {
      const auto index = nlohmann::json::parse(read_bytes(path + "/" + index_file));
      REQUIRE(index["weight_map"].size() == specs.size());
      for (const auto& shard :
           std::set<std::string>(index["weight_map"].begin(), index["weight_map"].end())) {
        parse_plainly(path + "/" + shard, plainly);
        std::uint64_t bytes = 0, tensors = 0;
        for (const auto& [name, content] : plainly) {
          if (index["weight_map"][name] != shard || content.second.empty()) continue;
          bytes += content.second.size();
          ++tensors;
        }
        REQUIRE((bytes <= shard_bytes || tensors == 1));
      }
    }
    REQUIRE(plainly == expected);
  }
}

TEST_CASE("more shards than a process may have descriptors are written one after the other") {
  const TempDir dir;
  const LoweredLimit limit(RLIMIT_NOFILE, 64);
  std::vector<TensorSpec> specs;
  for (int i = 0; i < 200; ++i) specs.push_back(u8(fmt::format("{:03}", i), 2));
  Writer writer = Writer::directory(dir.path("out"), specs, {.shard_bytes = 2});
  for (std::size_t i = 0; i < specs.size(); ++i) {
    writer.write(i, 1, as_bytes("y"));
    writer.write(i, 0, as_bytes("x"));
  }
  writer.commit();
  CHECK(Checkpoint::open(dir.path("out")).shards().size() == 200);
}

TEST_CASE("files get the permissions that the process gives to new ones") {
  const TempDir dir;
  const mode_t before = ::umask(027);
  one_directory(dir.path("out")).commit();
  one_file(dir.path("out.safetensors")).commit();
  ::umask(before);
  CHECK(mode_of(dir.path("out")) == 0750);
  CHECK(mode_of(dir.path("out/model.safetensors")) == 0640);
  CHECK(mode_of(dir.path("out.safetensors")) == 0640);
}

// ---- further files

TEST_CASE("texts and copies of files stand beside the shards") {
  const TempDir dir;
  std::string big(3'000'001, '\0');
  for (std::size_t i = 0; i < big.size(); ++i) big[i] = static_cast<char>(i * 7 + i / 251);
  dir.write("tokenizer", big);
  dir.write("empty", "");
  REQUIRE(::symlink("tokenizer", dir.path("link").c_str()) == 0);
  Writer writer = one_directory(dir.path("out"));
  writer.add_copy("tokenizer.json", dir.path("link"));
  writer.add_copy("empty.txt", dir.path("empty"));
  writer.add_text(".gitattributes", "text");
  writer.commit();
  CHECK(names_in(dir.path("out")) ==
        Names{"model.safetensors", "tokenizer.json", "empty.txt", ".gitattributes"});
  CHECK(read_bytes(dir.path("out/tokenizer.json")) == big);
  CHECK(fs::is_regular_file(fs::symlink_status(dir.path("out/tokenizer.json"))));
  CHECK(read_bytes(dir.path("out/empty.txt")).empty());
}

TEST_CASE("a further file needs a name of its own in a directory") {
  const TempDir dir;
  Writer writer = one_directory(dir.path("out"));
  for (const std::string& name : {std::string(), std::string("."), std::string(".."), std::string("a/b"),
                                  std::string("/a"), std::string("../a"), std::string("a\0b", 3)}) {
    CAPTURE(name);
    check_input_error([&] { writer.add_text(name, ""); }, dir.path("out"), "not a file name");
    check_input_error([&] { writer.add_copy(name, "/dev/null"); }, dir.path("out"), "not a file name");
  }
  check_input_error([&] { writer.add_text(index_file, "{}"); }, index_file);
  check_runtime_error([&] { writer.add_text("model.safetensors", ""); }, "model.safetensors", "File exists");
  for (const char* name :
       {"accounts.db", ".bashrc", ".json", "notes"}) {  // which would keep it from being replaced
    CAPTURE(name);
    check_input_error([&] { writer.add_text(name, ""); }, name, "a checkpoint has no such file");
  }
  writer.add_text("a.json", "1");
  check_runtime_error([&] { writer.add_text("a.json", "2"); }, dir.path("out"), "File exists");
  check_input_error([&] { writer.add_copy("b.py", dir.path("none")); }, dir.path("none"), "No such file");
  check_input_error([&] { writer.add_copy("b.py", dir.path("")); }, "Is a directory");
  check_input_error([&] { writer.add_copy("b.py", "/dev/zero"); }, "/dev/zero", "not a regular file");
  Writer file = one_file(dir.path("out.safetensors"));
  check_input_error([&] { file.add_text("a.json", ""); }, "out.safetensors", "not a directory");
}

// ---- the account of what was written

TEST_CASE("what is not complete does not appear") {
  const TempDir dir;
  {
    Writer writer = Writer::directory(dir.path("out"), {u8("a", 4), u8("b", 4)}, {.shard_bytes = 4});
    check_runtime_error([&] { writer.commit(); }, dir.path("out"), "4 bytes of tensor \"a\"",
                        "only 0 were given");
    writer.write(0, 0, as_bytes("aaaa"));
    writer.write(1, 1, as_bytes("bb"));
    check_runtime_error([&] { writer.commit(); }, "tensor \"b\"", "only 2 were given");
    CHECK_FALSE(fs::exists(dir.path("out")));
    writer.write(1, 3, as_bytes("b"));
    writer.write(1, 0, as_bytes("b"));
    writer.commit();
    check_runtime_error([&] { writer.commit(); }, "that was done before");
  }
  CHECK(read_checkpoint(dir.path("out")).at("b").second == "bbbb");
}

TEST_CASE("bytes that are given twice, or in a place that is none, do not pass for others") {
  const TempDir dir;
  {
    Writer twice = Writer::file(dir.path("out"), {u8("t", 8)}, {});
    twice.write(0, 0, as_bytes("aaaa"));
    twice.write(0, 0, as_bytes("bbbb"));
    check_runtime_error([&] { twice.commit(); }, "tensor \"t\"", "given twice");
    check_runtime_error([&] { twice.write(0, 4, as_bytes("c")); }, dir.path("out"), "more bytes than it has");
    check_runtime_error([&] { twice.commit(); }, "a write of a tensor failed");
  }
  for (const auto& [tensor, offset, text] :
       {std::tuple{0u, 5ull, "aaaa"}, {0u, 9ull, ""}, {0u, ~0ull, "a"}, {1u, 0ull, "a"}}) {
    Writer writer = Writer::file(dir.path("out"), {u8("t", 8)}, {});
    check_runtime_error([&] { writer.write(tensor, offset, as_bytes(text)); }, dir.path("out"));
    check_runtime_error([&] { writer.commit(); }, "a write of a tensor failed");
  }
  CHECK(names_in(dir.path("")).empty());
}

TEST_CASE("tensors that no reader would take are refused before anything is made") {
  const TempDir dir;
  const auto refused = [&](std::vector<TensorSpec> specs, std::string_view part) {
    check_input_error([&] { (void)Writer::directory(dir.path("out"), specs, {.shard_bytes = 1}); }, part);
    check_input_error([&] { (void)Writer::file(dir.path("out"), specs, {}); }, part);
    CHECK(names_in(dir.path("")).empty());
  };
  refused({u8("a", 1), u8("b", 1), u8("a", 1)}, "second \"a\"");
  refused({u8("a\xff", 1)}, "not valid UTF-8");
  refused({u8("a", 1ull << 62)}, "[4611686018427387904]");
  std::vector<TensorSpec> huge;
  for (int i = 0; i < 17; ++i) huge.push_back(u8(fmt::format("t{}", i), (1ull << 60) - 1));
  refused(huge, "2^63");
}

// ---- the target

TEST_CASE("what is there is not replaced unless that is asked for") {
  const TempDir dir;
  dir.write("file", "old");
  fs::create_directory(dir.path("directory"));
  check_input_error([&] { (void)one_file(dir.path("file")); }, dir.path("file"), "exists already");
  check_input_error([&] { (void)one_directory(dir.path("directory")); }, dir.path("directory"),
                    "exists already");
  check_input_error([&] { (void)one_directory(dir.path("file")); }, "exists already");
  check_input_error([&] { (void)one_file(dir.path("directory")); }, "exists already");
  CHECK(read_bytes(dir.path("file")) == "old");

  // The same when it comes while the work is done.
  {
    Writer file = one_file(dir.path("late"));
    Writer directory = one_directory(dir.path("later"));
    dir.write("late", "somebody else's");
    fs::create_directory(dir.path("later"));
    check_runtime_error([&] { file.commit(); }, dir.path("late"), "File exists");
    check_runtime_error([&] { directory.commit(); }, dir.path("later"), "File exists");
  }
  CHECK(read_bytes(dir.path("late")) == "somebody else's");
  CHECK(fs::is_empty(dir.path("later")));
  CHECK(names_in(dir.path("")) == Names{"directory", "file", "late", "later"});
}

TEST_CASE("a replaced file keeps its permissions, and a link to it stays") {
  const TempDir dir;
  dir.write("file", "old");
  REQUIRE(::chmod(dir.path("file").c_str(), 0604) == 0);
  REQUIRE(::symlink("file", dir.path("link").c_str()) == 0);
  Writer writer = one_file(dir.path("link"), true);
  CHECK(read_bytes(dir.path("file")) == "old");
  writer.commit();
  CHECK(fs::is_symlink(dir.path("link")));
  CHECK(mode_of(dir.path("file")) == 0604);
  CHECK(value_of(dir.path("link")) == "nnnn");
  CHECK(names_in(dir.path("")) == Names{"file", "link"});
  check_input_error([&] { (void)one_file(dir.path(""), true); }, "it is a directory");
  check_input_error([&] { (void)one_file("/dev/null", true); }, "/dev/null", "not a regular file");
}

TEST_CASE("a replaced directory is the old one until it is the new one, and no file of the old stays") {
  const TempDir dir;
  Writer old = one_directory(dir.path("out"), false, 'o');
  old.add_text("stale.txt", "");
  old.commit();
  REQUIRE(::chmod(dir.path("out").c_str(), 0705) == 0);
  REQUIRE(::symlink("out", dir.path("link").c_str()) == 0);
  { const Writer given_up = one_directory(dir.path("out"), true); }
  CHECK(value_of(dir.path("out")) == "oooo");
  const Checkpoint open = Checkpoint::open(dir.path("out"));
  Writer writer = one_directory(dir.path("link/"), true);
  CHECK(value_of(dir.path("out")) == "oooo");
  writer.commit();
  CHECK(fs::is_symlink(dir.path("link")));
  CHECK(mode_of(dir.path("out")) == 0705);
  CHECK(value_of(dir.path("out")) == "nnnn");
  CHECK(names_in(dir.path("out")) == Names{"model.safetensors"});
  CHECK(names_in(dir.path("")) == Names{"link", "out"});
  CHECK(static_cast<char>(open.data(open.at("t"))[0]) == 'o');  // mapped, so it lives on
}

TEST_CASE("who asks for replacing gets it whether the target comes or goes meanwhile") {
  const TempDir dir;
  for (const auto& make : {one_file, one_directory}) {
    Writer late = make(dir.path("out"), true, 'l');
    make(dir.path("out"), false, 'o').commit();
    late.commit();
    CHECK(value_of(dir.path("out")) == "llll");
    Writer last = make(dir.path("out"), true, 'x');
    fs::remove_all(dir.path("out"));
    last.commit();
    CHECK(value_of(dir.path("out")) == "xxxx");
    CHECK(names_in(dir.path("")) == Names{"out"});
    fs::remove_all(dir.path("out"));
  }
}

TEST_CASE("a directory that does not look like a checkpoint's is not replaced") {
  const TempDir dir;
  const std::string out = dir.path("out");
  fs::create_directory(out);
  one_directory(out, true).commit();  // an empty one is nobody's loss
  CHECK(value_of(out) == "nnnn");

  dir.write("out/notes.txt", "");
  one_directory(out, true).commit();
  dir.write("out/notes.txt", "");
  fs::remove(out + "/model.safetensors");
  check_input_error([&] { (void)one_directory(out, true); }, out, "files but none of a checkpoint");
  dir.write("out/config.json", "{}");
  dir.write("out/accounts.db", "");
  dir.write("out/zebra.db", "");
  check_input_error([&] { (void)one_directory(out, true); }, out,
                    "holds accounts.db, which is not a checkpoint's");
  fs::remove(out + "/accounts.db");
  fs::remove(out + "/zebra.db");
  fs::create_directory(out + "/src");
  check_input_error([&] { (void)one_directory(out, true); }, out, "holds src, which is not a file");
  fs::remove(out + "/src");
  {
    // What comes while the work is done counts too.
    Writer writer = one_directory(out, true);
    fs::create_directory(out + "/src");
    check_runtime_error([&] { writer.commit(); }, out, "holds src");
  }
  CHECK(names_in(out) == Names{"config.json", "notes.txt", "src"});
  CHECK(names_in(dir.path("")) == Names{"out"});
  dir.write("file", "");
  check_input_error([&] { (void)one_directory(dir.path("file"), true); }, "it is not a directory");
  check_input_error([&] { (void)one_directory("/", true); }, "mount point");
}

TEST_CASE("a target that cannot be is refused before the work") {
  const TempDir dir;
  dir.write("file", "");
  REQUIRE(::symlink("nowhere", dir.path("dangling").c_str()) == 0);
  for (const bool overwrite : {false, true}) {
    check_input_error([&] { (void)one_file("", overwrite); }, "give a path");
    check_input_error([&] { (void)one_file(dir.path("none/out"), overwrite); }, dir.path("none/out"),
                      "its directory: No such file");
    check_input_error([&] { (void)one_directory(dir.path("file/out"), overwrite); }, "Not a directory");
    check_input_error([&] { (void)one_directory(dir.path("dangling"), overwrite); }, dir.path("dangling"),
                      "leads nowhere");
  }
  if (::geteuid() != 0) {  // who may do everything
    dir.write("locked", "");
    REQUIRE(::chmod(dir.path("locked").c_str(), 0444) == 0);
    check_input_error([&] { (void)one_file(dir.path("locked"), true); }, "Permission denied");
    REQUIRE(::chmod(dir.path("").c_str(), 0555) == 0);
    check_input_error([&] { (void)one_file(dir.path("new")); }, "Permission denied");
    REQUIRE(::chmod(dir.path("").c_str(), 0755) == 0);
    fs::remove(dir.path("locked"));
  }
  CHECK(names_in(dir.path("")) == Names{"dangling", "file"});
}

TEST_CASE("slashes at the end, relative paths and the longest names are taken") {
  const TempDir dir;
  one_directory(dir.path("out//")).commit();
  CHECK(value_of(dir.path("out")) == "nnnn");
  const std::string longest(255, 'x');
  one_directory(dir.path(longest)).commit();
  CHECK(value_of(dir.path(longest)) == "nnnn");
  const fs::path before = fs::current_path();
  fs::current_path(dir.path(""));
  one_file("here").commit();
  one_directory("./there").commit();
  fs::current_path(before);
  CHECK(names_in(dir.path("")) == Names{"here", longest, "out", "there"});
}

// ---- failures and deaths

TEST_CASE("a limit that is too low is noticed before the work, by the target's name") {
  const TempDir dir;
  const LoweredLimit limit(RLIMIT_FSIZE, 1'000'000);  // without anything done about SIGXFSZ
  check_runtime_error([&] { (void)Writer::file(dir.path("out"), {u8("t", 1'000'000)}, {}); }, dir.path("out"),
                      "reserve 1.00 MB", "File too large");
  check_runtime_error(
      [&] {
        (void)Writer::directory(dir.path("out"), {u8("s", 4), u8("t", 1'000'000)}, {.shard_bytes = 1});
      },
      dir.path("out"), "File too large");
  CHECK(names_in(dir.path("")).empty());
}

TEST_CASE("a write that fails names the target, and leaves nothing behind") {
  const TempDir dir;
  const auto before = ::signal(SIGXFSZ, SIG_IGN);
  for (const bool is_file : {true, false}) {
    const std::vector<TensorSpec> specs{u8("a", 100), u8("b", 100'000)};
    Writer writer = is_file ? Writer::file(dir.path("out"), specs, {})
                            : Writer::directory(dir.path("out"), specs, {.shard_bytes = 100});
    {
      const LoweredLimit limit(RLIMIT_FSIZE, 50'000);
      writer.write(0, 0, as_bytes(std::string(100, 'a')));
      check_runtime_error([&] { writer.write(1, 0, as_bytes(std::string(100'000, 'b'))); }, dir.path("out"),
                          "cannot write", "File too large");
    }
    check_runtime_error([&] { writer.commit(); }, dir.path("out"), "a write of a tensor failed");
    CHECK(names_in(dir.path("")).size() == 1);
    { const Writer gone = std::move(writer); }
    CHECK(names_in(dir.path("")).empty());
  }
  ::signal(SIGXFSZ, before);
}

TEST_CASE("a process that dies while it writes leaves no target, and an old one whole") {
  for (const bool is_killed : {false, true}) {
    CAPTURE(is_killed);
    const TempDir dir;
    one_directory(dir.path("old"), false, 'o').commit();
    int ready[2];
    REQUIRE(::pipe(ready) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      Writer file = Writer::file(dir.path("file"), {u8("t", 8)}, {});
      Writer directory = Writer::directory(dir.path("new"), {u8("t", 8), u8("u", 8)}, {.shard_bytes = 8});
      Writer again = one_directory(dir.path("old"), true);
      file.write(0, 0, as_bytes("aaaa"));
      directory.write(0, 0, as_bytes("aaaaaaaa"));
      directory.write(1, 2, as_bytes("aaaa"));
      directory.add_text("config.json", "{}");
      if (!is_killed) ::_exit(0);
      (void)!::write(ready[1], "!", 1);
      ::pause();
    }
    ::close(ready[1]);
    char byte = 0;
    if (is_killed) {
      REQUIRE(::read(ready[0], &byte, 1) == 1);
      REQUIRE(::kill(child, SIGKILL) == 0);
    }
    ::close(ready[0]);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) == is_killed);

    CHECK(value_of(dir.path("old")) == "oooo");
    std::set<std::string> left = names_in(dir.path(""));
    CHECK(left.erase("old") == 1);
    CHECK(left.size() == 3);
    for (const std::string& name : left) {
      CAPTURE(name);
      const bool is_temporary = name.starts_with(".file.refit-") || name.starts_with(".new.refit-") ||
                                name.starts_with(".old.refit-");
      CHECK(is_temporary);
    }
    one_directory(dir.path("new")).commit();  // what is left is in nobody's way
    CHECK(value_of(dir.path("new")) == "nnnn");
  }
}

TEST_CASE("a writer that is given up leaves nothing behind") {
  const TempDir dir;
  {
    Writer first = Writer::directory(dir.path("out"), {u8("t", 8), u8("u", 8)}, {.shard_bytes = 8});
    first.add_text("config.json", "{}");
    first.write(0, 0, as_bytes("aaaa"));
    const Writer moved = std::move(first);
    CHECK(names_in(dir.path("")).size() == 1);
  }
  CHECK(names_in(dir.path("")).empty());
}
