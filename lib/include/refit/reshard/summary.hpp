// What a plan of many ranks costs: bytes by kind of link, balance, memory, and the least time that they take.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "refit/reshard/reshard.hpp"

namespace refit::reshard {

/// What lies between two ranks.
enum class Link : std::uint8_t {
  process,  ///< nothing: they are one process
  host,     ///< two processes of one host
  network,  ///< two hosts
  unknown,  ///< two processes, and nobody said how many ranks a host has
};
[[nodiscard]] Link link_between(std::uint32_t trainer_rank, std::uint32_t generator_rank,
                                const Options& options) noexcept;

/// Bytes a second, where they are known.
struct Bandwidths {
  std::optional<double> host, network;  ///< of one rank, each way
  std::optional<double> copy;           ///< read and written bytes of one rank's memory together
};

/// Over the ranks of one side.
struct Spread {
  std::uint64_t least = 0, median = 0, most = 0;
};

/// The bytes of the rank that has the most of them, and the time they take at the bandwidth given.
struct Floor {
  std::uint64_t bytes = 0;
  std::optional<double> seconds;
};

struct Summary {
  std::uint64_t process_bytes = 0, remote_bytes = 0;
  std::optional<std::uint64_t> host_bytes, network_bytes;  ///< of remote_bytes, where the hosts are known
  Spread sent, received;                                   ///< remote bytes of each rank
  std::optional<double> imbalance;  ///< most over mean of what trainer ranks send; nothing if none does
  /// Two buffers for what a process sends and two for what it receives, each as large as its largest round:
  /// of the process that needs most.
  std::uint64_t peak_extra_bytes = 0;
  Floor memory;                        ///< every byte sent is read, every byte received is written
  std::optional<Floor> host, network;  ///< sent or received over one rank's link; nothing if not known
};
[[nodiscard]] Summary summarize(const Reshard& plan, const Bandwidths& bandwidths);

/// One of a rank's peers.
struct Peer {
  std::uint32_t rank = 0;
  Link link = Link::process;
  std::uint64_t bytes = 0, transfers = 0, rounds = 0;
};
/// To whom the rank of `plan.sends` sends, and from whom that of `plan.receives` receives, by rank.
[[nodiscard]] std::vector<Peer> receivers(const Reshard& plan, const model::Inventory& model);
[[nodiscard]] std::vector<Peer> senders(const Reshard& plan, const model::Inventory& model);

}  // namespace refit::reshard
