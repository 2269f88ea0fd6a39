// The index of a sharded checkpoint, read strictly and written.
#include "checkpoint/index.hpp"

#include <fmt/format.h>

#include "base/json.hpp"
#include "refit/base/error.hpp"

namespace refit::checkpoint {
namespace {

[[noreturn]] void fail(const std::string& place, const std::string& reason) {
  fail_input(fmt::format("{}: {}", place, reason));
}

/// A shard is a file beside its index: nothing that an index says leads out of the directory.
void require_file_name(const std::string& shard, const std::string& tensor, const std::string& place) {
  const auto refuse = [&](std::string_view why) {
    fail(place, fmt::format("tensor {}: its shard {} {}", json_quoted(tensor), json_quoted(shard), why));
  };
  if (shard.find('/') != shard.npos) refuse("is not a file name: it has a '/'");
  if (shard.find('\0') != shard.npos) refuse("is not a file name: it has a zero byte");
  if (!shard.ends_with(".safetensors")) refuse("is not the name of a .safetensors file");
}

std::optional<std::uint64_t> read_total_size(const Json& root, const std::string& place) {
  const auto metadata = root.find("metadata");
  if (metadata == root.end() || metadata->is_null()) return std::nullopt;
  if (!metadata->is_object()) fail(place, "metadata is not an object");
  const auto total = metadata->find("total_size");
  if (total == metadata->end() || total->is_null()) return std::nullopt;
  if (!total->is_number_unsigned()) fail(place, "metadata.total_size is not a whole number of bytes");
  return total->get<std::uint64_t>();
}

Index index_of(const Json& root, const std::string& place) {
  if (!root.is_object()) fail(place, "is not a JSON object");
  const auto weight_map = root.find("weight_map");
  if (weight_map == root.end()) fail(place, "has no weight_map");
  if (!weight_map->is_object()) fail(place, "weight_map is not an object");
  if (weight_map->empty()) fail(place, "weight_map names no tensor");
  Index index;
  index.total_size = read_total_size(root, place);
  for (const auto& [tensor, shard] : weight_map->items()) {
    if (!shard.is_string()) {
      fail(place, fmt::format("tensor {}: its shard is not a string", json_quoted(tensor)));
    }
    const auto& name = shard.get_ref<const std::string&>();
    require_file_name(name, tensor, place);
    index.shards[name].push_back(tensor);
  }
  return index;
}

}  // namespace

Index parse_index(std::string_view text, const std::string& place) {
  return index_of(parse_json(text, place), place);
}

Index read_index(const std::string& path) {
  return index_of(read_json_file(path), path);
}

std::string make_index(const Index& index) {
  Json root{{"metadata", Json::object()}, {"weight_map", Json::object()}};
  if (index.total_size) root["metadata"]["total_size"] = *index.total_size;
  for (const auto& [shard, tensors] : index.shards) {
    for (const std::string& tensor : tensors) root["weight_map"][tensor] = shard;
  }
  return root.dump(2) + "\n";
}

}  // namespace refit::checkpoint
