// What model.safetensors.index.json says: which shard holds which tensor.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace refit::checkpoint {

inline constexpr std::string_view index_name = "model.safetensors.index.json";
inline constexpr std::string_view single_name = "model.safetensors";  ///< of a checkpoint of one file

struct Index {
  /// Each shard's file name and its tensors, both in order of their names. No shard is without tensors.
  std::map<std::string, std::vector<std::string>> shards;
  std::optional<std::uint64_t> total_size;  ///< metadata.total_size: the bytes of all tensors
};

/// Error(input) that begins with `place` when the text is no JSON object with a "weight_map" of names of
/// .safetensors files in the same directory.
[[nodiscard]] Index parse_index(std::string_view text, const std::string& place);

/// The same of a file, of at most 64 MiB. The largest public ones name 200,000 tensors in 20 MB.
[[nodiscard]] Index read_index(const std::string& path);

/// The text of an index.
[[nodiscard]] std::string make_index(const Index& index);

}  // namespace refit::checkpoint
