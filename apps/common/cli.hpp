// What every app does the same way: parse, run, catch once, and end with a documented code.
#pragma once

#include <CLI/CLI.hpp>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>

#include "refit/base/error.hpp"

namespace refit::apps {

/// Parses the command line and calls `body`. Returns its result, or 0 after --help and --version, 2 for a
/// command line that cannot be parsed, and for exceptions exit_code() of a refit::Error, else `failed`, which
/// also stands for errors of the kind runtime. Messages go to standard error and begin with the app's name.
[[nodiscard]] int run_app(CLI::App& app, int argc, char** argv, const std::function<int()>& body,
                          int failed = exit_code(ErrorKind::runtime));

/// "NAME 0.1.0 (commit 0123456789ab, modified)".
[[nodiscard]] std::string version_line(const std::string& name);

/// What `body` returns. Its Error gets the option in front that its text came from.
template <typename Body>
decltype(auto) from_option(const char* option, Body&& body) {
  try {
    return body();
  } catch (const Error& error) {
    throw Error(error.kind(), std::string(option) + ": " + error.what());
  }
}

/// Writes to standard error as far as it takes it: what nobody can read is no reason to stop.
void write_stderr(std::string_view text) noexcept;

/// Writes all of `text`, now. Error(runtime) when standard output does not take it.
void write_stdout(std::string_view text);

/// Bytes of an option's value, as parse_bytes takes them; the option's name goes into messages.
void add_bytes_option(CLI::App& app, const std::string& name, std::uint64_t& bytes,
                      const std::string& description);

/// Reads a whole number in digits. Error(input) that names the option and both limits for anything else.
[[nodiscard]] std::uint64_t parse_count(const std::string& text, const std::string& option,
                                        std::uint64_t least, std::uint64_t most);

/// A whole number of an option's value, from `least` to what its type holds.
template <std::unsigned_integral Count>
CLI::Option* add_count_option(CLI::App& app, const std::string& name, Count& count, Count least,
                              const std::string& description) {
  return app
      .add_option_function<std::string>(
          name,
          [&count, name, least](const std::string& text) {
            count = static_cast<Count>(parse_count(text, name, least, std::numeric_limits<Count>::max()));
          },
          description)
      ->default_str(std::to_string(count))
      ->type_name("N");
}

/// Seconds of an option's value: finite and above 0.
void add_seconds_option(CLI::App& app, const std::string& name, double& seconds,
                        const std::string& description);

/// --threads: `threads` begins as all CPUs that may be used.
void add_threads_option(CLI::App& app, unsigned& threads, const std::string& description);

/// Goes back to the beginning of a terminal's line and clears it.
inline constexpr const char* kClearLine = "\r\x1b[K";
/// "[====    ]" on a cleared line: done of total.
[[nodiscard]] std::string progress_bar(std::uint64_t done, std::uint64_t total);

}  // namespace refit::apps
