// Writing at places of a file, with the reason when it does not work.
#include "checkpoint/output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "refit/base/bytes.hpp"
#include "refit/base/error.hpp"

namespace refit::checkpoint {

void fail_write(const std::string& target, std::string_view what, int error) {
  fail_runtime(
      fmt::format("{} was not written: cannot {}: {}", target, what, std::generic_category().message(error)));
}

OutputFile::OutputFile(const std::string& path, bool create, const std::string& target)
    : fd_(::open(path.c_str(), O_WRONLY | O_CLOEXEC | (create ? O_CREAT | O_EXCL : 0), 0666)),
      target_(target) {
  if (fd_ < 0) fail_write(target_, fmt::format("open {}", path), errno);
}

OutputFile::~OutputFile() {
  ::close(fd_);
}

void OutputFile::reserve(std::uint64_t bytes) {
  if (bytes == 0) return;
  const std::string what = fmt::format("reserve {}", format_bytes(bytes));
  // Beyond this limit the call below would raise SIGXFSZ, which ends a process that is not prepared for it.
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur) fail_write(target_, what, EFBIG);
  // Not posix_fallocate, which writes all blocks where the file system cannot reserve them.
  int result;
  do {
    result = ::fallocate(fd_, 0, 0, static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  if (result != 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) {
    result = ::ftruncate(fd_, static_cast<off_t>(bytes));
  }
  if (result != 0) fail_write(target_, what, errno);
}

void OutputFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_write(target_, fmt::format("write {}", format_bytes(bytes.size())), errno);
    offset += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void OutputFile::sync() {
  if (::fsync(fd_) != 0) fail_write(target_, "synchronize it with the disk", errno);
}

}  // namespace refit::checkpoint
