// Waiting for requests of MPI, but not for ever.
#pragma once

#include <mpi.h>

#include <functional>
#include <span>
#include <string>

#include "refit/time/deadline.hpp"

namespace refit::mpi {

/// MPI moves messages only while somebody looks, so that who waits for bytes must not sleep. Who waits for a
/// word need not keep the CPU from the ranks that it waits for.
enum class Manner { eager, patient };

/// Until all requests are complete. Error(runtime) with waiting_for() when the deadline passes first; the
/// requests then stay as they are, because MPI cannot take them back.
void wait_all(std::span<MPI_Request> requests, Deadline deadline, Manner manner,
              const std::function<std::string()>& waiting_for);

}  // namespace refit::mpi
