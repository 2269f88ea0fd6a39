// A progress bar on a terminal; nothing anywhere else.
#include "progress.hpp"

#include "common/cli.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace refit::apps {

ProgressBar::ProgressBar(bool wanted) : enabled_(wanted && ::isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (enabled_) std::fputs(kClearLine, stderr);
}

void ProgressBar::show(unsigned done, unsigned planned, const std::string& what) {
  if (!enabled_) return;
  write_stderr(fmt::format("{} {}/{} {}", progress_bar(done, planned), done, planned, what));
}

}  // namespace refit::apps
