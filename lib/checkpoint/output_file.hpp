// A new file that is written in pieces: its failures name the target it is for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace refit::checkpoint {

/// Throws Error(runtime) "<target> was not written: cannot <what>: <text of the errno value>".
[[noreturn]] void fail_write(const std::string& target, std::string_view what, int error);

/// Owns a descriptor to write to. Errors are Error(runtime) that names `target`.
class OutputFile {
 public:
  /// Opens what is there, or with `create` what must not be there yet.
  OutputFile(const std::string& path, bool create, const std::string& target);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Gives the file its size, and the blocks for it where the file system can, so that a disk that is too
  /// small is noticed before the work.
  void reserve(std::uint64_t bytes);
  /// Thread-safe.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  void sync();

 private:
  int fd_;
  const std::string& target_;
};

}  // namespace refit::checkpoint
