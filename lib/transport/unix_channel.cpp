// Framing, descriptor passing and bounded waits over a Unix stream socket.
#include "refit/transport/unix_channel.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "refit/base/error.hpp"
#include "transport/system_error.hpp"

namespace refit::transport {

namespace {

constexpr std::size_t kMaxFds = 16;
constexpr std::size_t kMaxBody = std::size_t{1} << 30;
constexpr std::uint64_t kMagic = 0x3168637469666572;  // "refitch1": a frame begins here

/// Every message begins with this; the descriptors travel with its first byte, the body follows.
struct Header {
  std::uint64_t magic;
  std::uint64_t body;
  std::uint32_t type;
  std::uint32_t fds;
};
static_assert(sizeof(Header) == 24, "no padding travels");

struct alignas(cmsghdr) Control {
  std::array<char, CMSG_SPACE(kMaxFds * sizeof(int))> bytes{};
};

/// False when the deadline passes first.
bool wait_for(int fd, short events, Deadline deadline) {
  while (true) {
    pollfd one{.fd = fd, .events = events, .revents = 0};
    const int count = ::poll(&one, 1, deadline.poll_milliseconds());
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) fail_system(errno, "waiting for a channel");
    if (deadline.passed()) return false;
  }
}

/// How long a wait has lasted, for its error message.
std::string since(Clock::time_point start) {
  return fmt::format("{:.2f} s", std::chrono::duration<double>(Clock::now() - start).count());
}

bool means_peer_gone(int error) {
  return error == EPIPE || error == ECONNRESET;
}

void attach(msghdr& message, Control& control, const std::vector<int>& fds) {
  message.msg_control = control.bytes.data();
  message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
  cmsghdr* entry = CMSG_FIRSTHDR(&message);
  entry->cmsg_level = SOL_SOCKET;
  entry->cmsg_type = SCM_RIGHTS;
  entry->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  std::memcpy(CMSG_DATA(entry), fds.data(), fds.size() * sizeof(int));
}

/// Takes over every descriptor in `message`; `fds` has room for them, so that none can be lost to bad_alloc.
void detach(msghdr& message, std::vector<UniqueFd>& fds) {
  for (cmsghdr* entry = CMSG_FIRSTHDR(&message); entry != nullptr; entry = CMSG_NXTHDR(&message, entry)) {
    if (entry->cmsg_level != SOL_SOCKET || entry->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (entry->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(entry) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
}

/// One recvmsg: appends to `fds` what came along. Linux ends a read after the segment that carries
/// descriptors, and they come with its first byte, so that a read bounded by the frame never takes the next
/// frame's.
ssize_t receive_some(int socket, std::span<char> into, std::vector<UniqueFd>& fds) {
  Control control;
  iovec part{.iov_base = into.data(), .iov_len = into.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  fds.reserve(fds.size() + kMaxFds);
  const ssize_t count = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (count >= 0) detach(message, fds);
  return count;
}

/// What has arrived of one message so far.
struct Incoming {
  std::vector<UniqueFd> fds;
  std::size_t got = 0;
  std::size_t total = sizeof(Header);
  Clock::time_point start = Clock::now();
};

[[noreturn]] void fail_end(const std::string& peer, const Incoming& message) {
  if (message.got == 0) fail_runtime(fmt::format("the {} closed the connection", peer));
  fail_runtime(fmt::format("the {} closed the connection in the middle of a message ({} of {} bytes)", peer,
                           message.got, message.total));
}

[[noreturn]] void fail_late(const std::string& peer, const Incoming& message) {
  if (message.got == 0)
    fail_runtime(fmt::format("no message from the {} within {}", peer, since(message.start)));
  fail_runtime(fmt::format("a message from the {} did not arrive whole within {} ({} of {} bytes)", peer,
                           since(message.start), message.got, message.total));
}

}  // namespace

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  UniqueFd old(std::exchange(fd_, other.release()));
  return *this;
}

UniqueFd::~UniqueFd() {
  if (fd_ >= 0) ::close(fd_);
}

UnixChannel::UnixChannel(UniqueFd socket, std::string peer)
    : socket_(std::move(socket)), peer_(std::move(peer)) {
  int type = 0;
  socklen_t size = sizeof type;
  if (::getsockopt(socket_.get(), SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_STREAM ||
      ::fcntl(socket_.get(), F_SETFD, FD_CLOEXEC) != 0) {
    fail_runtime(fmt::format("descriptor {} is not a connection to the {}", socket_.get(), peer_));
  }
}

std::pair<UnixChannel, UnixChannel> UnixChannel::pair(std::string first_peer, std::string second_peer) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    fail_system(errno, "connecting the {} and the {}", second_peer, first_peer);
  }
  UniqueFd first(ends[0]), second(ends[1]);
  return {UnixChannel(std::move(first), std::move(first_peer)),
          UnixChannel(std::move(second), std::move(second_peer))};
}

void UnixChannel::send(std::uint32_t type, std::string_view body, const std::vector<int>& fds,
                       Deadline deadline) {
  if (fds.size() > kMaxFds || body.size() > kMaxBody) {
    fail_runtime(fmt::format("a message to the {} of {} descriptors and {} bytes exceeds {} and {}", peer_,
                             fds.size(), body.size(), kMaxFds, kMaxBody));
  }
  if (send_cut_) {
    fail_runtime(fmt::format("nothing more can be sent to the {}: an earlier message was cut off", peer_));
  }
  Header header{
      .magic = kMagic, .body = body.size(), .type = type, .fds = static_cast<std::uint32_t>(fds.size())};
  const Clock::time_point start = Clock::now();
  const std::size_t total = sizeof header + body.size();
  for (std::size_t sent = 0; sent < total;) {
    const std::size_t header_sent = std::min(sent, sizeof header), body_sent = sent - header_sent;
    // sendmsg does not write through iov_base, which has no const for readv's sake.
    std::array<iovec, 2> parts{
        {{.iov_base = reinterpret_cast<char*>(&header) + header_sent, .iov_len = sizeof header - header_sent},
         {.iov_base = const_cast<char*>(body.data()) + body_sent, .iov_len = body.size() - body_sent}}};
    Control control;
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    if (sent == 0 && !fds.empty()) attach(message, control, fds);
    const ssize_t count = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) {
      sent += static_cast<std::size_t>(count);
      send_cut_ = sent < total;
    } else if (errno == EAGAIN) {
      if (wait_for(socket_.get(), POLLOUT, deadline)) continue;
      fail_runtime(fmt::format("the {} did not take message {} within {} ({} of {} bytes)", peer_, type,
                               since(start), sent, total));
    } else if (means_peer_gone(errno)) {
      fail_runtime(fmt::format("the {} closed the connection before it took message {} ({} of {} bytes)",
                               peer_, type, sent, total));
    } else if (errno != EINTR) {
      fail_system(errno, "sending message {} to the {}", type, peer_);
    }
  }
}

Message UnixChannel::receive(Deadline deadline, std::size_t max_body) {
  if (receive_cut_) {
    fail_runtime(fmt::format("nothing more can be read from the {}: an earlier message was cut off", peer_));
  }
  Incoming incoming;
  const auto fill = [&](std::span<char> into) {
    while (!into.empty()) {
      const ssize_t count = receive_some(socket_.get(), into, incoming.fds);
      if (count > 0) {
        into = into.subspan(static_cast<std::size_t>(count));
        incoming.got += static_cast<std::size_t>(count);
        receive_cut_ = true;  // until the whole message is here
      } else if (count == 0 || means_peer_gone(errno)) {
        fail_end(peer_, incoming);
      } else if (errno == EAGAIN) {
        if (!wait_for(socket_.get(), POLLIN, deadline)) fail_late(peer_, incoming);
      } else if (errno != EINTR) {
        fail_system(errno, "reading a message from the {}", peer_);
      }
    }
  };

  Header header{};
  fill({reinterpret_cast<char*>(&header), sizeof header});
  if (header.magic != kMagic) {
    fail_runtime(fmt::format("unexpected bytes from the {}: a message cannot begin with {:#018x}", peer_,
                             header.magic));
  }
  if (header.body > max_body) {
    fail_runtime(fmt::format("message {} from the {} has a body of {} bytes, and at most {} are accepted",
                             header.type, peer_, header.body, max_body));
  }
  Message message{.type = header.type, .body = std::string(header.body, '\0'), .fds = {}};
  incoming.total += header.body;
  fill(message.body);
  if (incoming.fds.size() != header.fds) {
    fail_runtime(
        fmt::format("message {} from the {} came with {} of {} descriptors (is the limit of open files, "
                    "ulimit -n, reached?)",
                    header.type, peer_, incoming.fds.size(), header.fds));
  }
  message.fds = std::move(incoming.fds);
  receive_cut_ = false;
  return message;
}

bool UnixChannel::ready() const {
  return wait_for(socket_.get(), POLLIN, Deadline(Clock::now()));
}

}  // namespace refit::transport
