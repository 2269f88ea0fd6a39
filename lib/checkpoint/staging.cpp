// The temporary name, what may be replaced, and the renames.
#include "checkpoint/staging.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>
#include <vector>

#include "checkpoint/file_names.hpp"
#include "checkpoint/index.hpp"
#include "checkpoint/output_file.hpp"
#include "refit/base/errno_kind.hpp"
#include "refit/base/error.hpp"

namespace refit::checkpoint {
namespace {

namespace fs = std::filesystem;

std::string message_of(int error) {
  return std::generic_category().message(error);
}

[[noreturn]] void refuse(const std::string& target, std::string_view why, ErrorKind kind = ErrorKind::input) {
  throw Error(kind,
              fmt::format("cannot write {}: {}", target.empty() ? "a file without a name" : target, why));
}
[[noreturn]] void refuse(const std::string& target, int error) {
  refuse(target, message_of(error), kind_of_errno(error));
}

/// Without links in front of its last part, and that part not a link either.
std::string resolved(const std::string& target) {
  if (target.empty()) refuse(target, "give a path");
  std::error_code error;
  fs::path path = target;
  while (!path.has_filename() && path.has_relative_path()) path = path.parent_path();  // "out/"
  const fs::file_status link = fs::symlink_status(path, error);
  if (fs::exists(link)) {
    const fs::path existing = fs::canonical(path, error);
    if (error && fs::is_symlink(link)) refuse(target, "it is a symbolic link that leads nowhere");
    if (error) refuse(target, error.message());
    return existing.string();
  }
  if (error && link.type() != fs::file_type::not_found) refuse(target, error.message());
  const fs::path parent = fs::canonical(path.has_parent_path() ? path.parent_path() : ".", error);
  if (error) refuse(target, fmt::format("its directory: {}", error.message()));
  return (parent / path.filename()).string();
}

/// Replacing a directory deletes it, so everything in it has to be what a checkpoint's directory has. Why it
/// is not, or nothing.
std::string reason_to_keep(const std::string& directory) {
  std::error_code error;
  bool is_empty = true, is_checkpoint = false;
  std::vector<std::string> foreign;
  for (fs::directory_iterator item(directory, error), end; !error && item != end; item.increment(error)) {
    const std::string name = item->path().filename().string();
    // Of a link only itself is deleted.
    if (const fs::file_type type = item->symlink_status(error).type();
        !error && type != fs::file_type::regular && type != fs::file_type::symlink) {
      foreign.push_back(fmt::format("{}, which is not a file", name));
    } else if (!is_checkpoint_file(name)) {
      foreign.push_back(fmt::format("{}, which is not a checkpoint's", name));
    }
    is_empty = false;
    is_checkpoint =
        is_checkpoint || name.ends_with(".safetensors") || name == index_name || name == "config.json";
  }
  if (error) return error.message();
  if (!foreign.empty()) {
    return fmt::format("it is not replaced, because it holds {}",
                       *std::min_element(foreign.begin(), foreign.end()));
  }
  if (is_empty || is_checkpoint) return "";
  return "it is not replaced, because it holds files but none of a checkpoint";
}

std::string temporary_name(const fs::path& target) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz0123456789";
  constexpr std::size_t longest = 200;  // with what is added, below the 255 that file systems allow
  std::random_device random;
  std::string suffix;
  for (int i = 0; i < 6; ++i) suffix += letters[random() % letters.size()];
  const std::string name = target.filename().string().substr(0, longest);
  return (target.parent_path() / fmt::format(".{}.refit-{}", name, suffix)).string();
}

/// The names in a directory survive a power failure. Returns an errno value, 0 for none.
int sync_directory(const std::string& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int error = fd < 0 || ::fsync(fd) != 0 ? errno : 0;
  if (fd >= 0) ::close(fd);
  return error == EINVAL ? 0 : error;  // a file system without fsync of directories
}

}  // namespace

Staging::Staging(const std::string& target, Kind kind, bool overwrite)
    : target_(resolved(target)), kind_(kind), overwrite_(overwrite) {
  check_existing();
  create();
}

void Staging::check_existing() {
  struct stat existing {};
  if (::stat(target_.c_str(), &existing) != 0) {
    if (errno != ENOENT) refuse(target_, errno);
    return;
  }
  if (!overwrite_) refuse(target_, "it exists already");
  mode_ = existing.st_mode & 07777;
  if (kind_ == Kind::file) {
    if (!S_ISREG(existing.st_mode)) {
      refuse(target_, S_ISDIR(existing.st_mode) ? "it is a directory" : "it is not a regular file");
    }
  } else {
    if (!S_ISDIR(existing.st_mode)) refuse(target_, "it is not a directory");
    struct stat parent {};
    if (::stat((target_ + "/..").c_str(), &parent) == 0 &&
        (parent.st_dev != existing.st_dev || parent.st_ino == existing.st_ino)) {
      refuse(target_, "it is a mount point, which cannot be replaced");
    }
    if (const std::string reason = reason_to_keep(target_); !reason.empty()) refuse(target_, reason);
  }
  if (::access(target_.c_str(), W_OK) != 0) refuse(target_, errno);
}

void Staging::create() {
  for (int attempt = 0; attempt < 100; ++attempt) {
    const std::string path = temporary_name(target_);
    if (kind_ == Kind::directory) {
      if (::mkdir(path.c_str(), 0777) == 0) {
        path_ = path;
        return;
      }
    } else if (const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); fd >= 0) {
      ::close(fd);
      path_ = path;
      return;
    }
    if (errno != EEXIST) refuse(target_, errno);
  }
  refuse(target_, "no temporary name beside it is free");
}

Staging::~Staging() {
  remove();
}

void Staging::remove() noexcept {
  if (path_.empty()) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  path_.clear();
}

void Staging::publish() {
  if (kind_ == Kind::directory) {
    if (const int error = sync_directory(path_)) fail_write(target_, "synchronize it with the disk", error);
  }
  if (mode_) ::chmod(path_.c_str(), *mode_);
  if (!overwrite_ || ::access(target_.c_str(), F_OK) != 0) {
    rename_new();
  } else if (kind_ == Kind::directory) {
    replace_directory();
  } else if (::rename(path_.c_str(), target_.c_str()) != 0) {
    fail_write(target_, fmt::format("rename {}", path_), errno);
  } else {
    path_.clear();
  }
  remove();
  if (const int error = sync_directory(fs::path(target_).parent_path().string())) {
    fail_runtime(
        fmt::format("{} is complete, but may not survive a power failure: cannot synchronize its "
                    "directory with the disk: {}",
                    target_, message_of(error)));
  }
}

/// Nothing is replaced, also what has come since the work began.
void Staging::rename_new() {
  if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target_.c_str(), RENAME_NOREPLACE) != 0) {
    if (errno != EINVAL && errno != ENOSYS) fail_write(target_, fmt::format("rename {}", path_), errno);
    // A file system that cannot do both in one step.
    if (::access(target_.c_str(), F_OK) == 0) fail_write(target_, fmt::format("rename {}", path_), EEXIST);
    if (::rename(path_.c_str(), target_.c_str()) != 0) {
      fail_write(target_, fmt::format("rename {}", path_), errno);
    }
  }
  path_.clear();
}

/// Afterwards the old directory has the temporary name.
void Staging::replace_directory() {
  // Asked before; the work may have taken an hour.
  if (const std::string reason = reason_to_keep(target_); !reason.empty()) {
    fail_runtime(fmt::format("{} was not written: {}", target_, reason));
  }
  if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) == 0) return;
  if (errno != EINVAL && errno != ENOSYS) {
    fail_write(target_, fmt::format("exchange it with {}", path_), errno);
  }
  // A file system that cannot exchange. A process killed between these two renames leaves no target, but both
  // directories whole under their temporary names.
  const std::string aside = temporary_name(target_);
  if (::rename(target_.c_str(), aside.c_str()) != 0) {
    fail_write(target_, fmt::format("rename it to {}", aside), errno);
  }
  if (::rename(path_.c_str(), target_.c_str()) != 0) {
    const int error = errno;
    const bool is_back = ::rename(aside.c_str(), target_.c_str()) == 0;
    fail_write(target_,
               fmt::format("rename {}{}", path_, is_back ? "" : ", and what it replaces is now " + aside),
               error);
  }
  path_ = aside;
}

}  // namespace refit::checkpoint
