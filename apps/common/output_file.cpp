// Where an app's machine-readable result goes.
#include "common/output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/cli.hpp"
#include "refit/base/errno_kind.hpp"
#include "refit/base/error.hpp"

namespace refit::apps {
namespace {

namespace fs = std::filesystem;

std::string reason(int error) {
  return std::generic_category().message(error);
}

std::string directory_of(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

/// Whether the file system of `directory` has files without a name.
bool takes_unnamed_files(const std::string& directory) {
  const int fd = ::open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (fd >= 0) ::close(fd);
  return fd >= 0;
}

}  // namespace

/// A descriptor to write to; close() tells what the destructor cannot.
class OutputFile::Descriptor {
 public:
  Descriptor(const std::string& path, int flags)
      : path_(path), fd_(::open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0666)) {
    if (fd_ < 0) fail("create or open");
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  void write(std::string_view text) {
    while (!text.empty()) {
      const ssize_t written = ::write(fd_, text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("write");
      text.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  void sync() {
    if (::fsync(fd_) != 0) fail("synchronize");
  }
  /// Gives a file without a name one; what had no name until now vanishes with a killed process.
  void link_as(const std::string& name) {
    const std::string self = fmt::format("/proc/self/fd/{}", fd_);
    if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0) fail("name");
  }
  void set_mode(mode_t mode) { ::fchmod(fd_, mode); }
  void close() {
    if (::close(std::exchange(fd_, -1)) != 0) fail("close");
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    fail_runtime(fmt::format("cannot {} {}: {}", what, path_, reason(errno)));
  }
  const std::string path_;
  int fd_;
};

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  if (is_stdout()) return;
  const auto refuse = [&](std::string_view why, ErrorKind kind = ErrorKind::input) {
    throw Error(kind,
                fmt::format("cannot write to {}: {}", path_.empty() ? "a file without a name" : path_, why));
  };
  if (path_.empty()) refuse("give a path, or - for standard output");
  std::error_code ignored;
  const fs::file_status status = fs::status(path_, ignored);
  if (fs::is_directory(status)) refuse("it is a directory");
  if (fs::exists(status) && ::access(path_.c_str(), W_OK) != 0) refuse(reason(errno));
  if (fs::exists(status) && !fs::is_regular_file(status)) return;

  // Behind a symbolic link the file is replaced, not the link.
  if (fs::is_symlink(fs::symlink_status(path_, ignored)) && !fs::exists(status)) {
    refuse("it is a symbolic link that leads nowhere");
  }
  const fs::path target = fs::exists(status) ? fs::canonical(path_) : fs::path(path_);
  path_ = target.string();
  temporary_ = fmt::format("{}.{}.tmp", path_, ::getpid());
  const int probe = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (probe < 0) {
    const int error = errno;
    refuse(fmt::format("cannot create {}: {}", temporary_, reason(error)), kind_of_errno(error));
  }
  ::close(probe);
  ::unlink(temporary_.c_str());
}

OutputFile::~OutputFile() {
  if (prepared_ && !is_unnamed_) ::unlink(temporary_.c_str());
}

void OutputFile::write(std::string_view text) {
  prepare(std::string(text));
  publish();
}

void OutputFile::prepare(std::string text) {
  text_ = std::move(text);
  if (temporary_.empty()) return;
  try {
    write_temporary();
  } catch (const Error& error) {
    ::unlink(temporary_.c_str());
    prepared_.reset();
    fail_runtime(fmt::format("{} was not written: {}", path_, error.what()));
  }
}

void OutputFile::publish() {
  if (is_stdout()) return write_stdout(text_);
  if (temporary_.empty()) {
    Descriptor device(path_, 0);
    device.write(text_);
    return device.close();
  }
  try {
    rename_temporary();
  } catch (const Error& error) {
    ::unlink(temporary_.c_str());
    prepared_.reset();
    fail_runtime(fmt::format("{} was not written: {}", path_, error.what()));
  }
  prepared_.reset();
}

void OutputFile::write_temporary() {
  const std::string directory = directory_of(path_);
  is_unnamed_ = takes_unnamed_files(directory);
  prepared_ = std::make_unique<Descriptor>(is_unnamed_ ? directory : temporary_,
                                           is_unnamed_ ? O_TMPFILE : O_CREAT | O_TRUNC);
  prepared_->write(text_);
  struct stat existing {};
  if (::stat(path_.c_str(), &existing) == 0) prepared_->set_mode(existing.st_mode & 07777);
  prepared_->sync();
}

void OutputFile::rename_temporary() {
  if (is_unnamed_) prepared_->link_as(temporary_);
  is_unnamed_ = false;
  prepared_->close();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    fail_runtime(fmt::format("cannot rename {} to {}: {}", temporary_, path_, reason(errno)));
  }
}

void require_apart(const char* option, const std::string& output, const std::vector<std::string>& others) {
  if (output.empty() || output == "-") return;
  namespace fs = std::filesystem;
  for (const std::string& other : others) {
    if (other.empty()) continue;
    std::error_code ignored;
    const bool same_name =
        fs::absolute(output, ignored).lexically_normal() == fs::absolute(other, ignored).lexically_normal();
    if (same_name || fs::equivalent(output, other, ignored)) {
      fail_input(fmt::format("{} {}: is also {}, and would replace it", option, output, other));
    }
  }
}

void require_apart_from_checkpoints(const char* option, const std::string& output,
                                    const std::vector<std::string>& checkpoints) {
  require_apart(option, output, checkpoints);
  std::error_code ignored;
  if (output.empty() || output == "-" || !fs::exists(output, ignored)) return;
  for (const std::string& checkpoint : checkpoints) {
    if (checkpoint.empty()) continue;
    const std::string directory = checkpoint.ends_with(".index.json") ? directory_of(checkpoint) : checkpoint;
    if (fs::equivalent(directory_of(output), directory, ignored)) {
      fail_input(fmt::format("{} {}: is a file of {}, and would replace it", option, output, directory));
    }
  }
}

}  // namespace refit::apps
