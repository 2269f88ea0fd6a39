// Messages as the exchange takes them, and their digests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "ranks/rounds.hpp"
#include "refit/device/backend.hpp"
#include "refit/transport/group.hpp"

namespace refit::ranks {

[[nodiscard]] std::vector<transport::Part> parts_of(const Parcel& parcel, std::byte* buffer);

/// Digests of the bytes of all rounds, by peer.
using ByPeer = std::map<std::uint32_t, std::uint64_t>;
/// Adds the digests of a round's messages in `buffer`.
void add_digests(device::Backend& backend, const Parcel& parcel, std::byte* buffer, ByPeer& digests);

}  // namespace refit::ranks
