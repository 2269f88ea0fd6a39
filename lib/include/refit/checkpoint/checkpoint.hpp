// A checkpoint as one set of named tensors: a safetensors file, or a directory of shards with their index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "refit/checkpoint/safetensors.hpp"
#include "refit/tensor/tensor.hpp"

namespace refit::checkpoint {

/// Every shard is mapped and checked as SafetensorsFile::open does it, before a tensor can be read. Tensors
/// are views: they live as long as the object and need not be aligned. Movable, not copyable.
class Checkpoint {
 public:
  struct Tensor {
    TensorSpec spec;
    std::uint32_t shard = 0;  ///< index into shards()
  };

  /// `path` is a .safetensors file; a directory that holds model.safetensors.index.json, or
  /// model.safetensors, or exactly one *.safetensors file (not one that is named as a shard of several); or
  /// an index file itself. With an index only the shards it names are read, and stray files beside them are
  /// ignored. Error(input) with file, tensor and reason: what SafetensorsFile::open refuses; an index that is
  /// no JSON object with a "weight_map" of strings; a shard that is missing (names it and the first tensor
  /// that it was to hold) or whose name leaves the directory; a tensor that the index names and its shard
  /// lacks, or that a shard holds and the index does not name or names elsewhere; a tensor in two shards.
  /// metadata.total_size is not held against a checkpoint: writers count it in several ways.
  [[nodiscard]] static Checkpoint open(const std::string& path);
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// The directory that holds config.json and the rest; nothing for a lone file.
  [[nodiscard]] const std::optional<std::string>& directory() const noexcept { return directory_; }
  /// The index file; empty without one.
  [[nodiscard]] const std::string& index_path() const noexcept { return index_path_; }
  [[nodiscard]] const std::vector<SafetensorsFile>& shards() const noexcept { return shards_; }
  /// Shard by shard, in the order of their bytes.
  [[nodiscard]] const std::vector<Tensor>& tensors() const noexcept { return tensors_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }  ///< of all tensors

  [[nodiscard]] const Tensor* find(const std::string& name) const noexcept;  ///< null when absent
  [[nodiscard]] const Tensor& at(const std::string& name) const;             ///< Error(input) when absent
  [[nodiscard]] std::span<const std::byte> data(const Tensor& tensor) const;
  /// `FILE: tensor "NAME"`: for messages.
  [[nodiscard]] std::string place(const Tensor& tensor) const;
  void check_unchanged() const;  ///< of every shard, as SafetensorsFile does it

 private:
  Checkpoint() = default;
  void add_indexed();
  void add(SafetensorsFile shard);
  std::string path_, index_path_;
  std::optional<std::string> directory_;
  std::vector<SafetensorsFile> shards_;
  std::vector<Tensor> tensors_;
  std::unordered_map<std::string, std::uint32_t> by_name_;
  std::uint64_t bytes_ = 0;
};

/// Calls `body`, which reads these checkpoints (null: none), and then check_unchanged() of each. Also when
/// `body` throws, because a file that changed is what explains its error.
void read_unchanged(std::initializer_list<const Checkpoint*> checkpoints, const std::function<void()>& body);

}  // namespace refit::checkpoint
