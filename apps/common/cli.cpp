// What every app does the same way: parse, run, catch once, and end with a documented code.
#include "common/cli.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <new>
#include <sstream>
#include <system_error>

#include "common/build_info.hpp"
#include "refit/base/bytes.hpp"
#include "refit/base/error.hpp"
#include "refit/base/printable.hpp"
#include "refit/report/environment.hpp"

namespace refit::apps {
namespace {

constexpr int kUsage = 2;

int complain(const CLI::App& app, const char* sentence, int code) {
  write_stderr(fmt::format("{}: {}\n", app.get_name(), printable(sentence)));
  return code;
}

/// Help and version are answers, not errors.
int answer(const CLI::App& app, const CLI::Success& success) {
  std::ostringstream out;
  app.exit(success, out, out);
  write_stdout(out.str());
  return 0;
}

}  // namespace

void write_stderr(std::string_view text) noexcept {
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
  (void)std::fflush(stderr);
}

namespace {

/// What is printed to a descriptor that was closed must fail, and not reach the file or socket that would be
/// given its number next.
void occupy_standard_descriptors() noexcept {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    [[maybe_unused]] const int lowest = ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace

int run_app(CLI::App& app, int argc, char** argv, const std::function<int()>& body, int failed) {
  occupy_standard_descriptors();
  // A file size limit shall be a write error with a message, like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    try {
      app.parse(argc, argv);
    } catch (const CLI::Success& success) {
      return answer(app, success);
    }
    return body();
  } catch (const CLI::ParseError& error) {
    complain(app, error.what(), kUsage);
    write_stderr(fmt::format("{} --help says how it is used.\n", app.get_name()));
    return kUsage;
  } catch (const Error& error) {
    return complain(app, error.what(), error.kind() == ErrorKind::runtime ? failed : exit_code(error.kind()));
  } catch (const std::bad_alloc&) {
    return complain(app, "there is not enough memory", failed);
  } catch (const std::exception& error) {
    return complain(app, error.what(), failed);
  }
}

std::string version_line(const std::string& name) {
  const report::BuildInfo build = build_info();
  std::string line = fmt::format("{} {}", name, build.version);
  if (build.git_commit) {
    line += fmt::format(" (commit {:.12}{})", *build.git_commit,
                        build.git_dirty.value_or(false) ? ", modified" : "");
  }
  return line;
}

void write_stdout(std::string_view text) {
  errno = 0;
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0) return;
  fail_runtime(fmt::format("cannot write to standard output: {}", std::generic_category().message(errno)));
}

void add_bytes_option(CLI::App& app, const std::string& name, std::uint64_t& bytes,
                      const std::string& description) {
  app.add_option_function<std::string>(
         name, [&bytes, name](const std::string& text) { bytes = parse_bytes(text, name); }, description)
      ->type_name("BYTES");
}

std::uint64_t parse_count(const std::string& text, const std::string& option, std::uint64_t least,
                          std::uint64_t most) {
  std::uint64_t count = 0;
  const char* const end = text.data() + text.size();
  const auto [reached, error] = std::from_chars(text.data(), end, count);
  if (error != std::errc{} || reached != end || count < least || count > most) {
    fail_input(fmt::format("{}: \"{}\" is not a whole number from {} to {}", option, text, least, most));
  }
  return count;
}

void add_seconds_option(CLI::App& app, const std::string& name, double& seconds,
                        const std::string& description) {
  app.add_option_function<double>(
         name,
         [&seconds, name](double value) {
           if (!std::isfinite(value) || value <= 0) {
             fail_input(fmt::format("{} takes a number of seconds above 0, not {}", name, value));
           }
           seconds = value;
         },
         description)
      ->type_name("SECONDS");
}

void add_threads_option(CLI::App& app, unsigned& threads, const std::string& description) {
  threads = report::usable_cpus();
  app.add_option("--threads", threads, description)
      ->check(CLI::Range(1u, 4096u).description(""))
      ->type_name("N");
}

std::string progress_bar(std::uint64_t done, std::uint64_t total) {
  constexpr std::uint64_t kCells = 40;
  const auto full =
      total == 0
          ? 0
          : static_cast<std::uint64_t>(static_cast<double>(done) / static_cast<double>(total) * kCells);
  return fmt::format("{}[{:=<{}}{:{}}]", kClearLine, "", full, "", kCells - full);
}

}  // namespace refit::apps
