// A part is received straight into its buffer; what nobody asked for yet stays with its sender.
#include "transport/tcp_exchange.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "refit/base/error.hpp"

namespace refit::transport::tcp {
namespace {

/// A loss becomes known elsewhere.
constexpr std::chrono::milliseconds kLookAgain{50};
/// One call's share, so that no connection waits long for its turn.
constexpr std::size_t kMostAtOnce = std::size_t{4} << 20;

}  // namespace

TcpExchange::TcpExchange(Control& control, const std::vector<UniqueFd>& sockets)
    : control_(control), out_(sockets.size()), in_(sockets.size()) {
  for (const UniqueFd& socket : sockets) sockets_.push_back(socket.get());
  thread_ = std::thread([this] { run(); });
}

TcpExchange::~TcpExchange() {
  stop();
}

void TcpExchange::stop() {
  {
    const std::lock_guard locked(mutex_);
    stop_ = true;
  }
  wakeup_.wake();
  if (thread_.joinable()) thread_.join();
}

void TcpExchange::start(unsigned slot, std::span<const Part> sends, std::span<const Part> receives) {
  {
    const std::lock_guard locked(mutex_);
    if (stop_) fail_runtime("a round cannot begin: an earlier one was given up");
    const auto add = [&](std::vector<Stream>& streams, std::span<const Part> parts) {
      for (const Part& part : parts) {
        streams.at(part.peer).jobs.push_back({part.bytes, slot});
        ++left_.at(slot)[part.peer];
      }
    };
    add(in_, receives);
    add(out_, sends);
  }
  wakeup_.wake();
}

void TcpExchange::wait(unsigned slot, Deadline deadline) {
  std::string failure, late;
  {
    std::unique_lock locked(mutex_);
    while (!left_.at(slot).empty()) {
      failure = failure_;
      if (failure.empty()) failure = control_.loss().value_or("");
      if (failure.empty() && deadline.passed()) late = unfinished(slot);
      if (!failure.empty() || !late.empty()) break;
      const auto look_again = std::chrono::milliseconds(deadline.poll_milliseconds());
      finished_.wait_for(locked, std::min(look_again, kLookAgain));
    }
  }
  if (failure.empty() && late.empty()) return;
  stop();
  if (!late.empty()) control_.fail_late(late);
  fail_runtime(failure);
}

std::string TcpExchange::unfinished(unsigned slot) const {
  std::string names;
  for (const auto& [peer, parts] : left_[slot]) {
    names += (names.empty() ? "" : ", ") + control_.describe(peer);
  }
  return names;
}

void TcpExchange::run() {
  std::vector<pollfd> polled(sockets_.size() + 1);
  for (;;) {
    polled.back() = {wakeup_.fd(), POLLIN, 0};
    {
      const std::lock_guard locked(mutex_);
      if (stop_) return;
      for (std::size_t peer = 0; peer < sockets_.size(); ++peer) {
        const auto wanted = [](const Stream& stream) { return !stream.jobs.empty() && !stream.broken; };
        const int events = (wanted(in_[peer]) ? POLLIN : 0) | (wanted(out_[peer]) ? POLLOUT : 0);
        polled[peer] = {events == 0 ? -1 : sockets_[peer], static_cast<short>(events), 0};
      }
    }
    if (::poll(polled.data(), polled.size(), -1) <= 0) continue;
    if (polled.back().revents != 0) wakeup_.clear();
    for (std::uint32_t peer = 0; peer < sockets_.size(); ++peer) {
      const short ready = polled[peer].revents;
      if ((ready & ~POLLOUT) != 0) move(peer, Direction::in);
      if ((ready & ~POLLIN) != 0) move(peer, Direction::out);
    }
  }
}

void TcpExchange::move(std::uint32_t peer, Direction direction) {
  Stream& stream = (direction == Direction::in ? in_ : out_)[peer];
  Job job;
  {
    const std::lock_guard locked(mutex_);
    if (stream.jobs.empty() || stream.broken || stop_) return;
    job = stream.jobs.front();
  }
  if (direction == Direction::out) stream.head = {job.bytes.size()};
  const ssize_t count = move_some(sockets_[peer], direction, stream, job);
  if (count == -EAGAIN || count == -EINTR) return;
  if (count <= 0) {
    stream.broken = true;
    control_.suspect(peer);
    return;
  }
  stream.done += static_cast<std::size_t>(count);
  if (stream.done < sizeof(Head)) return;
  if (direction == Direction::in && !check_head(peer, stream, job)) {
    stream.broken = true;
    return;
  }
  if (stream.done == sizeof(Head) + job.bytes.size()) finish(peer, stream, job.slot);
}

ssize_t TcpExchange::move_some(int socket, Direction direction, Stream& stream, const Job& job) {
  const std::size_t of_head = std::min(stream.done, sizeof(Head)), of_bytes = stream.done - of_head;
  std::array<iovec, 2> parts{
      {{reinterpret_cast<std::byte*>(&stream.head) + of_head, sizeof(Head) - of_head},
       {job.bytes.data() + of_bytes, std::min(job.bytes.size() - of_bytes, kMostAtOnce)}}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const ssize_t count = direction == Direction::in ? ::recvmsg(socket, &message, MSG_DONTWAIT)
                                                   : ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  return count < 0 ? -errno : count;
}

bool TcpExchange::check_head(std::uint32_t peer, const Stream& stream, const Job& job) {
  if (stream.head.bytes == job.bytes.size()) return true;
  const std::lock_guard locked(mutex_);
  failure_ = fmt::format("rank {} sent {} bytes to rank {}, which expected {}", peer, stream.head.bytes,
                         control_.rank(), job.bytes.size());
  finished_.notify_all();
  return false;
}

void TcpExchange::finish(std::uint32_t peer, Stream& stream, unsigned slot) {
  stream.done = 0;
  const std::lock_guard locked(mutex_);
  stream.jobs.pop_front();
  auto& left = left_[slot];
  if (--left[peer] == 0) left.erase(peer);
  if (left.empty()) finished_.notify_all();
}

}  // namespace refit::transport::tcp
