// Ranks that find each other by the variables that torchrun sets: TCP as meeting place and data path of host
// memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "refit/time/deadline.hpp"
#include "refit/transport/session.hpp"

namespace refit::transport::tcp {

/// Where a rank belongs, as its launcher says.
struct Place {
  std::uint32_t rank = 0, size = 1;
  std::string host;  ///< of rank 0: a name or an address
  std::uint16_t port = 0;
  std::string run;  ///< ranks of another run are turned away
  /// Without them, by which ranks are on one host.
  std::optional<std::uint32_t> local_rank, ranks_on_this_host;
};

/// Whether MASTER_ADDR and MASTER_PORT are there, and with them RANK and WORLD_SIZE, or SLURM_PROCID and
/// SLURM_NTASKS.
[[nodiscard]] bool launched() noexcept;

/// What these variables say, with LOCAL_RANK, LOCAL_WORLD_SIZE and TORCHELASTIC_RUN_ID where they are there.
/// The port is MASTER_PORT; the one after it where an agent of torchrun listens there itself;
/// REFIT_MASTER_PORT before both. Error(input) with name and value of what cannot be.
[[nodiscard]] Place place_from_environment();

/// Meets the others at host:port, where rank 0 listens, until the deadline: then two connections to each, one
/// for what ranks say and one for what they move. Who says something else there, or is of another run,
/// version or size, is turned away. Error(input) when the port is taken, or this rank is turned away;
/// Error(runtime) that names the ranks that did not come. `on_loss` may return, in tests: then every call
/// throws what it was told.
[[nodiscard]] std::unique_ptr<Session> join(const Place& place, OnLoss on_loss, Deadline deadline);

}  // namespace refit::transport::tcp
