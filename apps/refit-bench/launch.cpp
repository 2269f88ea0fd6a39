// mpirun and srun bring MPI, torchrun its variables.
#include "launch.hpp"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <string_view>
#include <thread>

#include "common/cli.hpp"
#include "refit/base/error.hpp"
#include "refit/transport/tcp.hpp"
#if REFIT_HAS_MPI
#include "refit/mpi/session.hpp"
#endif

namespace refit::apps {
namespace {

bool launched_by_mpi() {
#if REFIT_HAS_MPI
  return mpi::launched();
#else
  return false;
#endif
}

/// Slurm's tasks of which each would be alone.
bool is_one_of_many_tasks() {
  const char* const tasks = std::getenv("SLURM_NTASKS");
  return std::getenv("SLURM_PROCID") != nullptr && tasks != nullptr && std::string_view(tasks) != "1";
}

[[noreturn]] void refuse_strangers() {
  fail_input(
      fmt::format("Slurm started {} tasks that do not know each other: start them with srun --mpi=pmix, or "
                  "set MASTER_ADDR and MASTER_PORT to the first one's host and a free port there",
                  std::getenv("SLURM_NTASKS")));
}

[[noreturn]] void refuse_alone(std::uint32_t ranks) {
#if REFIT_HAS_MPI
  const std::string mpirun = fmt::format("mpirun -np {} refit-bench ..., or ", ranks);
  const std::string hint;
#else
  const std::string mpirun;
  const std::string hint = " (mpirun takes a build with MPI: install it, configure with -DREFIT_MPI=ON)";
#endif
  fail_input(
      fmt::format("this takes {0} ranks, and this process was started alone: start it with {1}torchrun "
                  "--nproc-per-node {0} --no-python refit-bench ...{2}",
                  ranks, mpirun, hint));
}

/// Not 0: this rank is ending already, with this code. Then it is no news that others do.
std::atomic<int> ending = 0;
std::atomic<int> own_rank = -1;

void say(std::string_view sentence) {
  const int rank = own_rank;
  const std::string who =
      rank < 0 ? "" : fmt::format("rank {}: ", rank);  // MPI says which, once it has begun
  write_stderr(fmt::format("refit-bench: {}{}\n", who, sentence));
}

void end_with_the_others(const std::string& sentence) {
  const int code = ending;
  if (code == 0) say(sentence);
  std::_Exit(code == 0 ? exit_code(ErrorKind::runtime) : code);
}

std::unique_ptr<transport::Session> meet(Launcher launcher, double timeout_s) {
  const Deadline deadline = Deadline::after(std::chrono::duration<double>(timeout_s));
  if (launcher == Launcher::tcp) {
    const transport::tcp::Place place = transport::tcp::place_from_environment();
    own_rank = static_cast<int>(place.rank);
    return transport::tcp::join(place, end_with_the_others, deadline);
  }
#if REFIT_HAS_MPI
  own_rank = mpi::launched_rank();
  return std::make_unique<mpi::Session>(end_with_the_others, deadline);
#else
  fail_input("this build has no MPI");
#endif
}

/// Who did not even meet the others says who it is, too.
std::unique_ptr<transport::Session> meet_or_say_who(Launcher launcher, double timeout_s) {
  try {
    return meet(launcher, timeout_s);
  } catch (const Error& error) {
    const std::string who = fmt::format("rank {}", own_rank.load()), what = error.what();
    if (own_rank < 0 || what.starts_with(who + " ")) throw;
    throw Error(error.kind(), fmt::format("{}: {}", who, what));
  }
}

[[noreturn]] void fail(transport::Session& session, const char* sentence, int code) {
  ending = code;
  // What all ranks refuse alike is said by the first alone, which lets the others come to the same end.
  const bool alike = code == exit_code(ErrorKind::input);
  if (alike && own_rank != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1000));
  say(sentence);
  if (alike && own_rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  session.abort(code);
  std::_Exit(code);  // not reached, which compilers do not see of virtual functions
}

}  // namespace

Launcher launcher_of(std::uint32_t ranks, const std::string& transport) {
  const bool by_mpi = launched_by_mpi();
  if (!by_mpi && !transport::tcp::launched()) {
    if (is_one_of_many_tasks()) refuse_strangers();
    refuse_alone(ranks);
  }
  if (transport == (by_mpi ? "tcp" : "mpi")) {
    fail_input(fmt::format("--transport {} does not go with ranks that {} started: leave it out, or say {}",
                           transport, by_mpi ? "mpirun or srun" : "torchrun's variables",
                           by_mpi ? "mpi" : "tcp"));
  }
  return by_mpi ? Launcher::mpi : Launcher::tcp;
}

int run_as_rank(Launcher launcher, double timeout_s,
                const std::function<int(transport::Session& session)>& body) {
  const std::unique_ptr<transport::Session> session = meet_or_say_who(launcher, timeout_s);
  own_rank = static_cast<int>(session->group()->rank());
  try {
    if (session->group()->size() == 1 && is_one_of_many_tasks()) refuse_strangers();
    return body(*session);
  } catch (const Error& error) {
    fail(*session, error.what(), exit_code(error.kind()));
  } catch (const std::bad_alloc&) {
    fail(*session, "this process was given no more memory", exit_code(ErrorKind::runtime));
  } catch (const std::exception& error) {
    fail(*session, error.what(), exit_code(ErrorKind::runtime));
  }
}

}  // namespace refit::apps
