// A child process that never outlives its owner.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "refit/time/deadline.hpp"
#include "refit/transport/unix_channel.hpp"

namespace refit::transport {

/// How a child ended, in words: "exit status 3", "killed by signal 9 (Killed)".
struct ExitState {
  bool signaled = false;
  int code = 0;  ///< exit status, or the signal's number
  [[nodiscard]] std::string describe() const;
};

class ChildProcess {
 public:
  /// Starts `program` (a path; PATH is not searched) with `arguments` (argv[1..]) and the whole environment
  /// of this process. `inherited`, if any, arrives as descriptor 3 in the child; of the others only 0, 1, 2
  /// do. Error(runtime) naming the program when it cannot be executed. This process may have other threads.
  ///
  /// The child gets SIGKILL when this process dies, also when it is killed (PR_SET_PDEATHSIG). The trap: the
  /// kernel watches the *thread* that called spawn(), so spawn from one that lives as long as the child
  /// shall.
  [[nodiscard]] static ChildProcess spawn(const std::string& program,
                                          const std::vector<std::string>& arguments, UniqueFd inherited);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  /// Kills (SIGKILL) and reaps the child if it still runs.
  ~ChildProcess();

  [[nodiscard]] int pid() const noexcept { return pid_; }
  /// The exit state, if the child has ended; reaps it. Error(runtime) when somebody else did (SIGCHLD
  /// ignored).
  [[nodiscard]] std::optional<ExitState> poll();
  /// Waits until the child ends or the deadline passes (then kills it) and returns how it ended.
  ExitState wait(Deadline deadline);

 private:
  explicit ChildProcess(int pid) : pid_(pid) {}
  std::optional<ExitState> reap(int flags);
  int pid_ = -1;
  std::optional<ExitState> state_;
};

/// For a spawned child that notices the end of its socket by itself and has something to say then: the death
/// of its parent no longer kills it.
void outlive_parent() noexcept;

/// The path of the running program.
[[nodiscard]] std::string own_executable();

}  // namespace refit::transport
