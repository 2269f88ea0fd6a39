// What each rank packs, sends, receives and places in each round of a plan.
#pragma once

#include <cstdint>
#include <vector>

#include "refit/reshard/reshard.hpp"

namespace refit::reshard {

/// Of one rank and one round.
struct SendLoad {
  std::uint64_t boxes = 0, quantized = 0;           ///< to other processes; of them made into MXFP8
  std::uint64_t pack_bytes = 0;                     ///< source bytes read, wire bytes written
  std::uint64_t host_bytes = 0, network_bytes = 0;  ///< sent to the same host, to others
};
struct ReceiveLoad {
  std::uint64_t boxes = 0, late = 0;  ///< from other processes; of them quantized here
  std::uint64_t place_bytes = 0;      ///< wire bytes read, parameters written
  std::uint64_t host_bytes = 0, network_bytes = 0;
  std::uint64_t own_boxes = 0, own_bytes = 0;  ///< what never leaves the process: read and written
};

struct Loads {
  std::uint32_t rounds = 0, trainers = 0, generators = 0;
  std::vector<SendLoad> sends;        ///< [round][trainer rank]
  std::vector<ReceiveLoad> receives;  ///< [round][generator rank]
  /// For each generator rank the other processes that send to it, by rank.
  std::vector<std::vector<std::uint32_t>> senders;

  [[nodiscard]] const SendLoad& send(std::uint32_t round, std::uint32_t rank) const {
    return sends[std::size_t{round} * trainers + rank];
  }
  [[nodiscard]] const ReceiveLoad& receive(std::uint32_t round, std::uint32_t rank) const {
    return receives[std::size_t{round} * generators + rank];
  }
};

/// The plan that reshard() makes of the same arguments. A link whose hosts are not known counts as network.
[[nodiscard]] Loads loads(const model::Inventory& model, const std::vector<bool>& quantized,
                          const Layout& trainer, const Layout& generator, const Options& options);

}  // namespace refit::reshard
