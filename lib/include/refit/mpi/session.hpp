// Ranks that mpirun or srun started: MPI as launcher, meeting place and data path of host memory.
#pragma once

#include <memory>

#include "refit/transport/session.hpp"

namespace refit::mpi {

/// Whether a launcher of MPI started this process, by the variables that it sets (Open MPI, MPICH and Slurm's
/// PMI).
[[nodiscard]] bool launched() noexcept;

/// This process's rank by these variables, -1 where they do not say.
[[nodiscard]] int launched_rank() noexcept;

/// MPI from MPI_Init to MPI_Finalize: at most one in a process's life, on the thread that made it.
class Session : public transport::Session {
 public:
  /// `on_loss` is told of the ranks of this host, and when these have not all begun by the deadline.
  /// Error(runtime) when MPI cannot begin.
  Session(transport::OnLoss on_loss, Deadline deadline);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() override;

  [[nodiscard]] std::unique_ptr<transport::Group> group() override;
  [[nodiscard]] std::unique_ptr<transport::Exchange> exchange() override;
  [[nodiscard]] std::uint32_t local_rank() const noexcept override;
  [[nodiscard]] std::uint32_t ranks_on_this_host() const noexcept override;
  [[noreturn]] void abort(int exit_code) noexcept override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace refit::mpi
