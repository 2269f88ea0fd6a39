// Asks the terminal and the environment.
#include "terminal.hpp"

#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace refit::apps {
namespace {

constexpr std::size_t kUsualColumns = 80;

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::size_t columns_of(int fd) {
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsualColumns;
}

/// The first of these that is set decides, as setlocale(3) has it.
bool is_utf8() {
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view locale = variable(name);
    if (locale.empty()) continue;
    const std::size_t dot = locale.find('.');
    if (dot == locale.npos) return false;
    const std::string_view charset = locale.substr(dot + 1, locale.find('@', dot) - dot - 1);
    const auto is = [&](std::string_view word) {
      return charset.size() == word.size() && ::strncasecmp(charset.data(), word.data(), word.size()) == 0;
    };
    return is("UTF-8") || is("utf8");
  }
  return false;
}

}  // namespace

report::BarStyle bar_style(int fd) {
  if (::isatty(fd) != 1) return {};
  const std::string_view terminal = variable("TERM");
  const bool colour = variable("NO_COLOR").empty() && !terminal.empty() && terminal != "dumb";
  return {columns_of(fd), is_utf8(), colour};
}

}  // namespace refit::apps
