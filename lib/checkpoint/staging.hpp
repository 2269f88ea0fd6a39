// A file or directory under a temporary name beside its target, which it gets at once or not at all.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace refit::checkpoint {

class Staging {
 public:
  enum class Kind { file, directory };

  /// Makes ".NAME.refit-XXXXXX" beside `target`. Error(input) when the target is there and may not be
  /// replaced: without `overwrite`; when it is of the other kind, write-protected or a mount point; when it
  /// is a directory that holds anything but a checkpoint's files (is_checkpoint_file), or none of the
  /// weights, index and config.json. Error(runtime) when there is no room for it. Behind a symbolic link it
  /// is what the link leads to that is replaced.
  Staging(const std::string& target, Kind kind, bool overwrite);
  /// Removes what has the temporary name.
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  [[nodiscard]] const std::string& target() const noexcept { return target_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Renames. What was there before is gone afterwards. Error(runtime) that names the target; then it is as
  /// it was, unless the sentence says otherwise.
  void publish();

 private:
  void check_existing();
  void create();
  void rename_new();
  void replace_directory();
  void remove() noexcept;

  std::string target_, path_;  ///< path_ is empty when nothing has the temporary name
  Kind kind_;
  bool overwrite_;
  std::optional<mode_t> mode_;  ///< of what is to be replaced
};

}  // namespace refit::checkpoint
