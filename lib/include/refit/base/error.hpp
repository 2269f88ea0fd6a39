// The one exception type of the library.
#pragma once

#include <stdexcept>
#include <string>

namespace refit {

/// What went wrong, as the caller has to treat it. Apps turn the kind into their exit code.
enum class ErrorKind {
  check,    ///< a verification ran and found a difference (exit 1)
  input,    ///< bad usage, bad file, refused configuration (exit 2)
  runtime,  ///< the machine or a peer failed while running (exit 3)
};

/// One sentence for a person: what was attempted, with which values, what came back.
/// It names the file, tensor or option at fault; it never ends in a newline.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& sentence) : std::runtime_error(sentence), kind_(kind) {}
  [[nodiscard]] ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

[[noreturn]] inline void fail_input(const std::string& sentence) {
  throw Error(ErrorKind::input, sentence);
}
[[noreturn]] inline void fail_runtime(const std::string& sentence) {
  throw Error(ErrorKind::runtime, sentence);
}

/// 1, 2 or 3: the exit codes that every app documents.
[[nodiscard]] constexpr int exit_code(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::check:
      return 1;
    case ErrorKind::input:
      return 2;
    case ErrorKind::runtime:
      return 3;
  }
  return 3;
}

}  // namespace refit
