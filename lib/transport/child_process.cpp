// Starting, watching and ending a child process.
#include "refit/transport/child_process.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>

#include "transport/system_error.hpp"

namespace refit::transport {

namespace {

constexpr int kInherited = 3;

/// All that the child needs between fork and exec, computed before: there, other threads' locks (the
/// allocator's, say) may be held for ever, and only async-signal-safe calls are allowed.
struct Launch {
  const char* program;
  char* const* argv;
  int inherited;   ///< -1 for none
  int report;      ///< the pipe's end that carries errno; closed by a successful exec
  int parent;      ///< the parent's process id
  int open_files;  ///< no descriptor is above
  sigset_t old_mask;
};

/// The parent's handlers must not run in the child, whose memory is a copy; exec resets them, but only then.
void reset_signals(const sigset_t& mask) {
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action {};
    if (sigaction(number, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = SIG_DFL;
    sigaction(number, &action, nullptr);
  }
  sigprocmask(SIG_SETMASK, &mask, nullptr);
}

/// Also those that some other library opened without close-on-exec.
void close_on_exec_from(int first, int open_files) {
  if (syscall(SYS_close_range, first, ~0u, CLOSE_RANGE_CLOEXEC) == 0) return;
  for (int fd = first; fd < open_files; ++fd) fcntl(fd, F_SETFD, FD_CLOEXEC);  // before Linux 5.11
}

/// Runs in the child; comes back, with errno, only when something failed.
void execute(const Launch& launch) {
  reset_signals(launch.old_mask);
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return;
  if (getppid() != launch.parent) _exit(1);  // it died before it could be watched
  close_on_exec_from(kInherited, launch.open_files);
  if (launch.inherited == kInherited) {
    if (fcntl(kInherited, F_SETFD, 0) != 0) return;
  } else if (launch.inherited >= 0) {
    if (dup2(launch.inherited, kInherited) < 0) return;
  }
  execve(launch.program, launch.argv, environ);
}

/// Forks with every signal blocked, so that none reaches the child before its handlers are reset.
int fork_into(Launch& launch) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &launch.old_mask);
  const int pid = ::fork();
  if (pid == 0) {
    execute(launch);
    const int error = errno;
    [[maybe_unused]] const ssize_t written = write(launch.report, &error, sizeof error);
    _exit(127);
  }
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &launch.old_mask, nullptr);
  errno = error;
  return pid;
}

/// errno of the child's failed exec, or 0 when the pipe closed without one. Waits as long as an exec takes.
int read_report(int fd) {
  int error = 0;
  ssize_t count = 0;
  do {
    count = ::read(fd, &error, sizeof error);
  } while (count < 0 && errno == EINTR);
  return count == sizeof error ? error : 0;
}

int limit_of_open_files() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1 << 20));
}

}  // namespace

std::string ExitState::describe() const {
  if (!signaled) return fmt::format("exit status {}", code);
  return fmt::format("killed by signal {} ({})", code, ::strsignal(code));
}

ChildProcess ChildProcess::spawn(const std::string& program, const std::vector<std::string>& arguments,
                                 UniqueFd inherited) {
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);

  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail_system(errno, "creating a pipe to start {}", program);
  const UniqueFd report(ends[0]);
  UniqueFd low(ends[1]);
  // Out of the way of descriptor 3, which the child replaces.
  UniqueFd child_report(::fcntl(low.get(), F_DUPFD_CLOEXEC, kInherited + 1));
  if (!child_report) fail_system(errno, "creating a pipe to start {}", program);
  low = UniqueFd();

  Launch launch{.program = program.c_str(),
                .argv = argv.data(),
                .inherited = inherited.get(),
                .report = child_report.get(),
                .parent = ::getpid(),
                .open_files = limit_of_open_files(),
                .old_mask = {}};
  ChildProcess child(fork_into(launch));
  if (child.pid_ < 0) fail_system(errno, "starting a process for {}", program);
  child_report = UniqueFd();
  if (const int error = read_report(report.get()); error != 0) fail_system(error, "executing {}", program);
  return child;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), state_(other.state_) {}

ChildProcess::~ChildProcess() {
  // 0: it runs. Anything else: its number is free for other processes, which must not be killed.
  if (pid_ < 0 || state_ || ::waitpid(pid_, nullptr, WNOHANG) != 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
}

std::optional<ExitState> ChildProcess::poll() {
  return reap(WNOHANG);
}

ExitState ChildProcess::wait(Deadline deadline) {
  while (!reap(WNOHANG)) {
    if (deadline.passed()) {
      ::kill(pid_, SIGKILL);
      return *reap(0);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return *state_;
}

std::optional<ExitState> ChildProcess::reap(int flags) {
  if (state_) return state_;
  int status = 0, pid = 0;
  do {
    pid = ::waitpid(pid_, &status, flags);
  } while (pid < 0 && errno == EINTR);
  if (pid < 0) fail_system(errno, "collecting the exit state of process {}", pid_);
  if (pid == pid_) {
    state_ = WIFSIGNALED(status) ? ExitState{true, WTERMSIG(status)} : ExitState{false, WEXITSTATUS(status)};
  }
  return state_;
}

void outlive_parent() noexcept {
  prctl(PR_SET_PDEATHSIG, 0);
}

std::string own_executable() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

}  // namespace refit::transport
