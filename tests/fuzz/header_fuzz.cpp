// Any bytes as a safetensors file: refused with Error(input), or tensors that lie in it and cover it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "fuzz/require.hpp"
#include "refit/checkpoint/safetensors.hpp"

using namespace refit;
using namespace refit::checkpoint;

namespace {

using Metadata = std::map<std::string, std::string>;

/// What was read can be written, and is then read again as it was.
void require_round_trip(const std::vector<Entry>& entries, const Metadata& metadata,
                        std::uint64_t data_bytes) {
  std::vector<TensorSpec> specs;
  for (const Entry& entry : entries) specs.push_back(entry.spec);
  const std::string again = make_header(specs, metadata) + std::string(data_bytes, '\0');
  Metadata metadata_again;
  const auto entries_again = parse_header(std::as_bytes(std::span(again)), "again", &metadata_again);
  require(metadata_again == metadata);
  require(entries_again.size() == entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    require(entries_again[i].spec == entries[i].spec);
    require(entries_again[i].begin == entries[i].begin && entries_again[i].end == entries[i].end);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<Entry> entries;
  Metadata metadata;
  const bool is_read =
      reads([&] { entries = parse_header(std::as_bytes(std::span(data, size)), "file", &metadata); });
  if (!is_read) return 0;
  std::uint64_t covered = 0;
  for (const Entry& entry : entries) {
    require(entry.begin == covered);
    require(entry.end - entry.begin == entry.spec.bytes());
    require(entry.end <= size);
    covered = entry.end;
  }
  require(covered <= size - 8);
  require_round_trip(entries, metadata, covered);
  return 0;
}
