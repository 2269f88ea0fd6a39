// The error of a failed system call.
#pragma once

#include <fmt/format.h>

#include <string>
#include <system_error>
#include <utility>

#include "refit/base/error.hpp"

namespace refit::transport {

/// Error(runtime) "creating a pipe failed: Too many open files". `error` is errno, taken before formatting
/// can change it.
template <class... Args>
[[noreturn]] void fail_system(int error, fmt::format_string<Args...> attempt, Args&&... args) {
  fail_runtime(fmt::format("{} failed: {}", fmt::format(attempt, std::forward<Args>(args)...),
                           std::generic_category().message(error)));
}

}  // namespace refit::transport
