// Shared memory on memfd: reserved before it is used, sealed before it is shared.
#include "refit/transport/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "refit/base/bytes.hpp"
#include "transport/system_error.hpp"

namespace refit::transport {

namespace {

std::uint64_t page_size() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

[[noreturn]] void fail_full(std::uint64_t asked, std::uint64_t available, const std::string& what) {
  fail_runtime(
      fmt::format("not enough memory to share {}: asked {} bytes, {} available", what, asked, available));
}

/// Allocates every page now. In pieces: a signal makes the kernel undo the whole call, and a retry of one
/// piece still gets on under a periodic timer. Each piece looks again, because others allocate at the same
/// time and the kernel, rather than fail here, would kill processes until there is room.
void reserve(int fd, std::uint64_t bytes, const std::string& what) {
  constexpr std::uint64_t piece = std::uint64_t{256} << 20;
  for (std::uint64_t done = 0; done < bytes;) {
    const std::uint64_t available = available_memory();
    if (bytes - done > available) fail_full(bytes, done + available, what);
    const std::uint64_t size = std::min(piece, bytes - done);
    if (::fallocate(fd, 0, static_cast<off_t>(done), static_cast<off_t>(size)) == 0) {
      done += size;
    } else if (errno == ENOSPC || errno == ENOMEM) {
      fail_full(bytes, done + available, what);
    } else if (errno != EINTR) {
      fail_system(errno, "reserving {} bytes of shared memory for {}", bytes, what);
    }
  }
}

}  // namespace

SharedMemory SharedMemory::create(std::uint64_t bytes, const std::string& what) {
  // Before any rounding, which could wrap around.
  if (const std::uint64_t available = available_memory(); bytes > available)
    fail_full(bytes, available, what);
  // The kernel's name, seen in /proc/PID/maps alone, holds 249 characters.
  UniqueFd fd(::memfd_create(("refit: " + what).substr(0, 249).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const std::uint64_t whole_pages = align_up(bytes, page_size());
  if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(whole_pages)) != 0) {
    fail_system(errno, "creating {} bytes of shared memory for {}", bytes, what);
  }
  reserve(fd.get(), whole_pages, what);
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
    fail_system(errno, "sealing the shared memory for {}", what);
  }
  return SharedMemory(std::move(fd), bytes, what);
}

SharedMemory SharedMemory::map(UniqueFd fd, std::uint64_t bytes, const std::string& what) {
  struct stat state {};
  if (::fstat(fd.get(), &state) != 0) fail_system(errno, "looking at the shared memory for {}", what);
  if (static_cast<std::uint64_t>(state.st_size) < bytes) {
    fail_runtime(
        fmt::format("the shared memory for {} has {} bytes where {} are needed", what, state.st_size, bytes));
  }
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    fail_runtime(
        fmt::format("the shared memory for {} is not sealed: its owner could shrink it while it is "
                    "being used",
                    what));
  }
  return SharedMemory(std::move(fd), bytes, what);
}

SharedMemory::SharedMemory(UniqueFd fd, std::uint64_t bytes, const std::string& what) : fd_(std::move(fd)) {
  if (bytes == 0) return;
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (data == MAP_FAILED) fail_system(errno, "mapping {} bytes of shared memory for {}", bytes, what);
  // A hint: kernels without huge pages in shared memory refuse it, and nothing is lost.
  ::madvise(data, bytes, MADV_HUGEPAGE);
  data_ = static_cast<std::byte*>(data);
  size_ = bytes;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : fd_(std::move(other.fd_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  SharedMemory old(std::move(other));
  std::swap(fd_, old.fd_);
  std::swap(data_, old.data_);
  std::swap(size_, old.size_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace refit::transport
