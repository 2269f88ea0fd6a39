// Opening files for reading.
#include "base/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "refit/base/error.hpp"

namespace refit {

void fail_errno(const std::string& path, std::string_view what, int error) {
  fail_input(fmt::format("{}: {}: {}", path, what, std::generic_category().message(error)));
}

ReadableFile::ReadableFile(const std::string& path, int more_flags)
    : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | more_flags)) {
  if (fd_ < 0) fail_errno(path, "cannot open the file", errno);
  struct stat status {};
  const int error = ::fstat(fd_, &status) == 0 ? 0 : errno;
  if (error != 0 || S_ISDIR(status.st_mode)) {
    ::close(fd_);  // no destructor runs for an object whose constructor throws
    fail_errno(path, "cannot read the file", error != 0 ? error : EISDIR);
  }
  is_regular_ = S_ISREG(status.st_mode);
  size_ = static_cast<std::uint64_t>(status.st_size);
}

ReadableFile::~ReadableFile() {
  ::close(fd_);
}

}  // namespace refit
