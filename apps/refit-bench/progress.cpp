// A progress bar on a terminal; nothing anywhere else.
#include "progress.hpp"

#include "common/cli.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace refit::apps {

namespace {
constexpr unsigned kCells = 40;
constexpr const char* kClearLine = "\r\x1b[K";
}  // namespace

ProgressBar::ProgressBar(bool wanted) : enabled_(wanted && ::isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (enabled_) std::fputs(kClearLine, stderr);
}

void ProgressBar::show(unsigned done, unsigned planned, const std::string& what) {
  if (!enabled_) return;
  const unsigned full = planned == 0 ? 0 : static_cast<unsigned>(std::uint64_t{kCells} * done / planned);
  write_stderr(
      fmt::format("{}[{:=<{}}{:{}}] {}/{} {}", kClearLine, "", full, "", kCells - full, done, planned, what));
}

}  // namespace refit::apps
