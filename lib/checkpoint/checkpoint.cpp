// A checkpoint of one file or of many: found, mapped, and every tensor where it should be.
#include "refit/checkpoint/checkpoint.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/file.hpp"
#include "base/json.hpp"
#include "checkpoint/index.hpp"
#include "refit/base/error.hpp"

namespace refit::checkpoint {
namespace {

namespace fs = std::filesystem;

std::string directory_of(const std::string& file) {
  const fs::path parent = fs::path(file).parent_path();
  return parent.empty() ? "." : parent.string();
}

/// Whether a file says of itself that it is not all: "model-00001-of-00004.safetensors".
bool is_one_of_many(const std::string& stem) {
  constexpr std::string_view mark = "-of-";
  const auto at = stem.rfind(mark);
  if (at == stem.npos) return false;
  const std::string_view count = std::string_view(stem).substr(at + mark.size());
  return count.find_first_not_of("0123456789") == count.npos && count.find_first_not_of('0') != count.npos &&
         count.substr(count.find_first_not_of('0')) != "1";
}

/// The file to read of a directory without an index.
std::string lone_file(const std::string& directory) {
  const fs::path single = fs::path(directory) / single_name;
  if (is_there(single.string())) return single.string();
  std::error_code error;
  std::vector<std::string> found;
  for (fs::directory_iterator item(directory, error), end; !error && item != end; item.increment(error)) {
    const fs::path& path = item->path();
    const bool hidden = path.filename().string().starts_with('.');
    if (!hidden && path.extension() == ".safetensors") found.push_back(path.string());
  }
  if (error) fail_input(fmt::format("{}: cannot list the directory: {}", directory, error.message()));
  if (found.empty()) {
    fail_input(fmt::format("{}: holds no checkpoint: neither {}, nor {}, nor another .safetensors file",
                           directory, index_name, single_name));
  }
  if (found.size() > 1) {
    fail_input(
        fmt::format("{}: holds {} .safetensors files without {}, which would say how they belong together",
                    directory, found.size(), index_name));
  }
  if (is_one_of_many(fs::path(found.front()).stem().string())) {
    fail_input(fmt::format("{}: is one of several shards, and {} and the other shards are missing",
                           found.front(), index_name));
  }
  return found.front();
}

/// All shards, before the first is opened.
void require_shards(const Index& index, const std::string& directory, const std::string& place) {
  for (const auto& [shard, tensors] : index.shards) {
    if (is_there((fs::path(directory) / shard).string())) continue;
    fail_input(fmt::format("{}: shard {} is missing, which holds tensor {}{}", place, json_quoted(shard),
                           json_quoted(tensors.front()),
                           tensors.size() == 1 ? "" : fmt::format(" and {} more", tensors.size() - 1)));
  }
}

/// Every tensor of the index is in its shard, and in no other. `files` are the index's shards, in its order.
class Placement {
 public:
  Placement(const Index& index, const std::vector<SafetensorsFile>& files, const std::string& place)
      : index_(index), files_(files), place_(place) {
    for (const auto& [shard, tensors] : index.shards) {
      const auto number = static_cast<std::uint32_t>(shards_.size());
      shards_.push_back(&shard);
      for (const std::string& tensor : tensors) shard_of_.emplace(tensor, number);
    }
  }

  void check() const {
    for (std::uint32_t shard = 0; shard < files_.size(); ++shard) {
      for (const Entry& entry : files_[shard].entries()) check_held(entry.spec.name, shard);
    }
    std::uint32_t shard = 0;
    for (const auto& [name, tensors] : index_.shards) {
      for (const std::string& tensor : tensors) {
        if (files_[shard].contains(tensor)) continue;
        fail(tensor, fmt::format("should be in shard {}, which does not hold it", json_quoted(name)));
      }
      ++shard;
    }
  }

 private:
  [[noreturn]] void fail(const std::string& tensor, const std::string& reason) const {
    fail_input(fmt::format("{}: tensor {} {}", place_, json_quoted(tensor), reason));
  }

  void check_held(const std::string& tensor, std::uint32_t holder) const {
    const auto found = shard_of_.find(tensor);
    if (found == shard_of_.end()) {
      fail(tensor, fmt::format("is in shard {}, but not in the index", json_quoted(*shards_[holder])));
    }
    if (found->second == holder) return;
    const std::string& expected = *shards_[found->second];
    if (files_[found->second].contains(tensor)) {
      fail(tensor, fmt::format("is in shard {}, as the index says, and a second time in shard {}",
                               json_quoted(expected), json_quoted(*shards_[holder])));
    }
    fail(tensor, fmt::format("should be in shard {}, but is in shard {}", json_quoted(expected),
                             json_quoted(*shards_[holder])));
  }

  const Index& index_;
  const std::vector<SafetensorsFile>& files_;
  const std::string& place_;
  std::vector<const std::string*> shards_;
  std::unordered_map<std::string_view, std::uint32_t> shard_of_;
};

}  // namespace

Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

Checkpoint Checkpoint::open(const std::string& path) {
  Checkpoint checkpoint;
  checkpoint.path_ = path;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    checkpoint.directory_ = path;
    const fs::path index = fs::path(path) / index_name;
    if (is_there(index.string())) checkpoint.index_path_ = index.string();
  } else if (path.ends_with(".json")) {
    checkpoint.directory_ = directory_of(path);
    checkpoint.index_path_ = path;
  }
  if (!checkpoint.index_path_.empty()) {
    checkpoint.add_indexed();
  } else {
    checkpoint.add(SafetensorsFile::open(checkpoint.directory_ ? lone_file(path) : path));
  }
  return checkpoint;
}

void Checkpoint::add_indexed() {
  const Index index = read_index(index_path_);
  require_shards(index, *directory_, index_path_);
  std::vector<SafetensorsFile> files;
  files.reserve(index.shards.size());
  for (const auto& [shard, ignored] : index.shards) {
    files.push_back(SafetensorsFile::open((fs::path(*directory_) / shard).string()));
  }
  Placement(index, files, index_path_).check();
  for (SafetensorsFile& file : files) add(std::move(file));
}

void Checkpoint::add(SafetensorsFile shard) {
  const auto number = static_cast<std::uint32_t>(shards_.size());
  for (const Entry& entry : shard.entries()) {
    by_name_.emplace(entry.spec.name, static_cast<std::uint32_t>(tensors_.size()));
    tensors_.push_back({entry.spec, number});
    bytes_ += entry.end - entry.begin;
  }
  shards_.push_back(std::move(shard));
}

const Checkpoint::Tensor* Checkpoint::find(const std::string& name) const noexcept {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

const Checkpoint::Tensor& Checkpoint::at(const std::string& name) const {
  if (const Tensor* tensor = find(name)) return *tensor;
  fail_input(fmt::format("{}: has no tensor {}", path_, json_quoted(name)));
}

std::span<const std::byte> Checkpoint::data(const Tensor& tensor) const {
  return shards_.at(tensor.shard).data(tensor.spec.name);
}

std::string Checkpoint::place(const Tensor& tensor) const {
  return fmt::format("{}: tensor {}", shards_.at(tensor.shard).path(), json_quoted(tensor.spec.name));
}

void Checkpoint::check_unchanged() const {
  for (const SafetensorsFile& shard : shards_) shard.check_unchanged();
}

void read_unchanged(std::initializer_list<const Checkpoint*> checkpoints, const std::function<void()>& body) {
  const auto check = [&] {
    for (const Checkpoint* const checkpoint : checkpoints) {
      if (checkpoint != nullptr) checkpoint->check_unchanged();
    }
  };
  try {
    body();
  } catch (const Error&) {
    check();
    throw;
  }
  check();
}

}  // namespace refit::checkpoint
