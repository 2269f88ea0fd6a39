// Whose fault a failed system call on a path is.
#pragma once

#include <cerrno>

#include "refit/base/error.hpp"

namespace refit {

/// Input: the path that was given cannot be used. Runtime: the machine ran out of something, or a disk
/// failed.
[[nodiscard]] constexpr ErrorKind kind_of_errno(int error) noexcept {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case EIO:
      return ErrorKind::runtime;
    default:
      return ErrorKind::input;
  }
}

}  // namespace refit
