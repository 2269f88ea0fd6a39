// Ranks that mpirun or srun started: MPI as launcher, meeting place and data path of host memory.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "refit/transport/group.hpp"

namespace refit::mpi {

/// Whether a launcher of MPI started this process, by the variables that it sets (Open MPI, MPICH and Slurm's
/// PMI).
[[nodiscard]] bool launched() noexcept;

/// MPI from MPI_Init to MPI_Finalize: at most one in a process's life, on the thread that made it, which is
/// the one that uses what group() and exchange() give; both end before it.
class Session {
 public:
  /// `on_loss` is told, on a thread of its own, when a rank of this host is gone while the session lasts, or
  /// when the launcher asks this process to end (SIGTERM): one sentence with that rank's number and what it
  /// did last. It has to end the process. Error(runtime) when MPI cannot begin.
  explicit Session(std::function<void(const std::string& sentence)> on_loss);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  [[nodiscard]] std::unique_ptr<transport::Group> group();
  /// Host memory alone.
  [[nodiscard]] std::unique_ptr<transport::Exchange> exchange();
  /// Ends all ranks at once: what a rank does that cannot go on.
  [[noreturn]] void abort(int exit_code) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace refit::mpi
