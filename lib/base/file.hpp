// A file opened for reading, and the sentence for a failed system call on a path.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace refit {

/// Throws Error(input) "<path>: <what>: <text of the errno value>".
[[noreturn]] void fail_errno(const std::string& path, std::string_view what, int error);

/// Owns a read-only descriptor. A directory is refused; a pipe or a device is taken. `more_flags` are
/// open(2)'s.
class ReadableFile {
 public:
  explicit ReadableFile(const std::string& path, int more_flags = 0);
  ~ReadableFile();
  ReadableFile(const ReadableFile&) = delete;
  ReadableFile& operator=(const ReadableFile&) = delete;

  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] bool is_regular() const noexcept { return is_regular_; }
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }  ///< when opened; of a regular file

 private:
  int fd_;
  bool is_regular_ = false;
  std::uint64_t size_ = 0;
};

}  // namespace refit
