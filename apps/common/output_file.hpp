// Where an app's machine-readable result goes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace refit::apps {

/// "-" is standard output; a device or a pipe is written to as it is; anything else becomes a file that
/// appears whole or not at all: written under a temporary name beside it, synchronized and renamed.
class OutputFile {
 public:
  /// Error(input) when `path` cannot be written. Whether it can is tried here, so that nobody runs for
  /// minutes first.
  explicit OutputFile(std::string path);
  [[nodiscard]] bool is_stdout() const noexcept { return path_ == "-"; }
  /// Error(runtime) that names the file and the reason, a full disk for one; then nothing is left behind.
  void write(std::string_view text) const;

 private:
  void write_device(std::string_view text) const;
  void write_file(std::string_view text) const;
  std::string path_;
  std::string temporary_;  ///< empty for standard output and devices
};

/// Error(input) naming the option when an output would replace something that the program reads or writes
/// otherwise: the same file by name or by any link, or a directory that is one.
void require_apart(const char* option, const std::string& output, const std::vector<std::string>& others);

}  // namespace refit::apps
