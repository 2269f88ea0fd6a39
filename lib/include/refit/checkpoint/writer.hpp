// Writing a checkpoint that appears whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "refit/tensor/tensor.hpp"

namespace refit::checkpoint {

/// Everything is written under a temporary name beside the target (".NAME.refit-XXXXXX") and gets its name by
/// one rename after fsync, in commit(). Without commit() the destructor removes it; only a process that is
/// killed leaves it. Only headers and lists are kept in memory, and only shards that are begun and not
/// complete have a descriptor.
///
/// Replacing: behind a symbolic link it is what the link leads to that is replaced; permissions stay. A
/// directory is exchanged with the new one in one step and then deleted. On a file system that cannot
/// exchange (renameat2) it is renamed aside first; a process killed in between leaves no target, but both
/// directories whole under temporary names. A directory is not replaced when it holds anything but files with
/// names that a checkpoint's have (weights, configuration, tokenizer, code, texts), or no safetensors file,
/// index or config.json; what a Writer makes can always be replaced.
class Writer {
 public:
  struct Options {
    bool overwrite = false;  ///< replace what is there; else an existing target is Error(input)
    std::uint64_t shard_bytes = 5ull << 30;  ///< a directory's shards hold at most this much, or one tensor
    std::map<std::string, std::string> metadata = {{"format", "pt"}};
  };

  /// One .safetensors file. Error(input) when the tensors have no valid header (make_header) or the target
  /// cannot be written or replaced; Error(runtime) when there is no room. Then nothing is left behind.
  [[nodiscard]] static Writer file(const std::string& path, std::vector<TensorSpec> tensors, Options options);
  /// A directory with model-0000i-of-0000n.safetensors and model.safetensors.index.json (one shard:
  /// model.safetensors alone). Tensors keep their order.
  [[nodiscard]] static Writer directory(const std::string& path, std::vector<TensorSpec> tensors,
                                        Options options);
  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) = delete;
  ~Writer();

  /// Bytes [offset, offset + bytes.size()) of tensor number `tensor`. Thread-safe; each byte is to be written
  /// once. Error(runtime) naming the target with the reason (disk full, file size limit).
  void write(std::size_t tensor, std::uint64_t offset, std::span<const std::byte> bytes);
  /// A further file of a directory, of any name that a checkpoint's file has but the index's and the shards'.
  /// Thread-safe.
  void add_text(const std::string& name, const std::string& text);
  void add_copy(const std::string& name, const std::string& from);
  /// Error(runtime) when not every byte of every tensor was written exactly once, when a write() failed, or
  /// when fsync or rename fails; then nothing appears.
  void commit();

  [[nodiscard]] std::uint64_t bytes() const noexcept;  ///< of all tensors

 private:
  struct State;
  explicit Writer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace refit::checkpoint
