// How ranks find each other: everybody tells rank 0 where it listens, and is told where all others do.
#pragma once

#include <cstdint>
#include <vector>

#include "refit/transport/tcp.hpp"
#include "transport/tcp_socket.hpp"

namespace refit::transport::tcp {

struct Mesh {
  std::vector<UniqueFd> control, data;  ///< by rank; none to itself
  std::uint32_t local_rank = 0, ranks_on_this_host = 1;
};

/// `listeners` are rank 0's, none of the others'. The same errors as join().
[[nodiscard]] Mesh meet(const Place& place, std::vector<UniqueFd> listeners, Deadline deadline);

/// join() with rank 0's listeners made before.
[[nodiscard]] std::unique_ptr<Session> join_at(const Place& place, std::vector<UniqueFd> listeners,
                                               OnLoss on_loss, Deadline deadline);

}  // namespace refit::transport::tcp
