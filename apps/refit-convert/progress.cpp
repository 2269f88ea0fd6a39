// The time left assumes that the rest goes as the first part did.
#include "progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>

#include "common/cli.hpp"
#include "refit/base/bytes.hpp"

namespace refit::apps {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(200);

std::string time_left(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::ceil(seconds));
  if (whole < 60) return fmt::format("{} s left", whole);
  return fmt::format("{}:{:02} min left", whole / 60, whole % 60);
}

}  // namespace

ByteBar::ByteBar(bool wanted) : enabled_(wanted && ::isatty(STDERR_FILENO) == 1) {}

ByteBar::~ByteBar() {
  if (enabled_) write_stderr(kClearLine);
}

void ByteBar::show(std::uint64_t done, std::uint64_t total) {
  const Clock::time_point now = Clock::now();
  if (!enabled_ || done == 0 || (now < next_ && done < total)) return;
  next_ = now + kInterval;
  if (done == total) {
    return write_stderr(fmt::format("{} {}, synchronizing", progress_bar(done, total), format_bytes(total)));
  }
  const double share = static_cast<double>(done) / static_cast<double>(total);
  const double left = std::chrono::duration<double>(now - begin_).count() * (1 - share) / share;
  write_stderr(fmt::format("{} {} of {}, {}", progress_bar(done, total), format_bytes(done),
                           format_bytes(total), time_left(left)));
}

}  // namespace refit::apps
