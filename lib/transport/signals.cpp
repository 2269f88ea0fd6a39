// Descriptors of the kernel's own for events and signals.
#include "transport/signals.hpp"

#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>

#include "transport/system_error.hpp"

namespace refit::transport {

Wakeup::Wakeup() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!fd_) fail_system(errno, "making a descriptor to wake a thread");
}

void Wakeup::wake() const noexcept {
  const std::uint64_t one = 1;
  // It fails only when it is readable already.
  [[maybe_unused]] const ssize_t written = ::write(fd_.get(), &one, sizeof one);
}

void Wakeup::clear() const noexcept {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(fd_.get(), &count, sizeof count);
}

LauncherSignal::LauncherSignal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  fd_ = UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC));
  if (!fd_) fail_system(errno, "making a descriptor for the launcher's signal");
}

}  // namespace refit::transport
