// Any text as the index of a checkpoint: refused with Error(input), or file names beside it, each with
// tensors.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "checkpoint/index.hpp"
#include "fuzz/require.hpp"

using namespace refit::checkpoint;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Index index;
  const bool is_read = reads(
      [&] { index = parse_index(std::string_view(reinterpret_cast<const char*>(data), size), "index"); });
  if (!is_read) return 0;
  require(!index.shards.empty());
  for (const auto& [shard, tensors] : index.shards) {
    require(shard.ends_with(".safetensors"));
    require(shard.find('/') == shard.npos && shard.find('\0') == shard.npos);
    require(!tensors.empty());
    for (std::size_t i = 1; i < tensors.size(); ++i) require(tensors[i - 1] < tensors[i]);
  }
  const Index again = parse_index(make_index(index), "again");
  require(again.shards == index.shards && again.total_size == index.total_size);
  return 0;
}
