// A file opened for reading, whether there is one, and the sentence for a failed system call on a path.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace refit {

/// Throws Error "<path>: <what>: <text of the errno value>" of the kind that kind_of_errno() gives.
[[noreturn]] void fail_errno(const std::string& path, std::string_view what, int error);

/// Whether there is something of this name. A link that leads nowhere is something: opening it then says so.
/// Error(input) when that cannot be told, in a directory that may not be searched for one.
[[nodiscard]] bool is_there(const std::string& path);

/// Owns a read-only descriptor of a regular file. Anything else is refused without waiting for it, as opening
/// a pipe would for its writer.
class ReadableFile {
 public:
  explicit ReadableFile(const std::string& path);
  ~ReadableFile();
  ReadableFile(const ReadableFile&) = delete;
  ReadableFile& operator=(const ReadableFile&) = delete;

  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] const struct stat& status() const noexcept { return status_; }  ///< when opened
  [[nodiscard]] std::uint64_t size() const noexcept { return static_cast<std::uint64_t>(status_.st_size); }

 private:
  int fd_;
  struct stat status_ {};
};

}  // namespace refit
