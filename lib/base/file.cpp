// Opening files for reading.
#include "base/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "refit/base/errno_kind.hpp"
#include "refit/base/error.hpp"

namespace refit {

void fail_errno(const std::string& path, std::string_view what, int error) {
  throw Error(kind_of_errno(error),
              fmt::format("{}: {}: {}", path, what, std::generic_category().message(error)));
}

bool is_there(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) return true;
  if (errno != ENOENT && errno != ENOTDIR) fail_errno(path, "cannot look for the file", errno);
  return false;
}

ReadableFile::ReadableFile(const std::string& path)
    : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
  if (fd_ < 0) fail_errno(path, "cannot open the file", errno);
  int error = ::fstat(fd_, &status_) == 0 ? 0 : errno;
  if (error == 0 && S_ISDIR(status_.st_mode)) error = EISDIR;
  if (error == 0 && S_ISREG(status_.st_mode)) return;
  ::close(fd_);  // no destructor runs for an object whose constructor throws
  if (error != 0) fail_errno(path, "cannot read the file", error);
  fail_input(fmt::format("{}: is not a regular file, and nothing else is read", path));
}

ReadableFile::~ReadableFile() {
  ::close(fd_);
}

}  // namespace refit
