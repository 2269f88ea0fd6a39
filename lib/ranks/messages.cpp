// Ranges of a buffer.
#include "ranks/messages.hpp"

#include <span>

#include "refit/base/digest.hpp"

namespace refit::ranks {

std::vector<transport::Part> parts_of(const Parcel& parcel, std::byte* buffer) {
  std::vector<transport::Part> parts;
  for (const Message& message : parcel.messages) {
    parts.push_back({message.peer, {buffer + message.offset, message.bytes}});
  }
  return parts;
}

void add_digests(device::Backend& backend, const Parcel& parcel, std::byte* buffer, ByPeer& digests) {
  std::vector<std::span<const std::byte>> ranges;
  for (const transport::Part& part : parts_of(parcel, buffer)) ranges.push_back(part.bytes);
  const std::vector<std::uint64_t> found = backend.checker().digests(ranges);
  for (std::size_t i = 0; i < found.size(); ++i) {
    std::uint64_t& sum = digests[parcel.messages[i].peer];
    sum = mix64(sum + found[i]);
  }
}

}  // namespace refit::ranks
