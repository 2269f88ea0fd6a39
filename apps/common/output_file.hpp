// Where an app's machine-readable result goes.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace refit::apps {

/// "-" is standard output; a device or a pipe is written to as it is; anything else becomes a file that
/// appears whole or not at all: written under a temporary name beside it, synchronized and renamed.
class OutputFile {
 public:
  /// Error(input) when `path` cannot be written, Error(runtime) when the disk is full. Whether it can is
  /// tried here, so that nobody runs for minutes first.
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  [[nodiscard]] bool is_stdout() const noexcept { return path_ == "-"; }
  /// prepare() and publish(). Error(runtime) that names the file and the reason, a full disk for one; then
  /// nothing is left behind.
  void write(std::string_view text);
  /// Of a file: all of `text` is on the disk, and only its name is missing. Standard output and devices are
  /// only written to by publish().
  void prepare(std::string text);
  void publish();

 private:
  class Descriptor;
  void write_temporary();
  void rename_temporary();
  std::string path_;
  std::string temporary_;  ///< empty for standard output and devices
  std::string text_;
  std::unique_ptr<Descriptor> prepared_;  ///< of the temporary file
  bool is_unnamed_ = false;               ///< which has no name until publish() where that is possible
};

/// Error(input) naming the option when an output would replace something that the program reads or writes
/// otherwise: the same file by name or by any link, or a directory that is one.
void require_apart(const char* option, const std::string& output, const std::vector<std::string>& others);
/// The same for checkpoints: nor may it replace a file of their directories. An index stands for its own.
void require_apart_from_checkpoints(const char* option, const std::string& output,
                                    const std::vector<std::string>& checkpoints);

}  // namespace refit::apps
