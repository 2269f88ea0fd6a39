// Waiting for requests of MPI, but not for ever.
#pragma once

#include <mpi.h>

#include <functional>
#include <span>
#include <string>

#include "refit/time/deadline.hpp"

namespace refit::mpi {

/// Until all requests are complete. Error(runtime) with waiting_for() when the deadline passes first; the
/// requests then stay as they are, because MPI cannot take them back.
void wait_all(std::span<MPI_Request> requests, Deadline deadline,
              const std::function<std::string()>& waiting_for);

}  // namespace refit::mpi
