// Messages and file descriptors between two processes over a Unix socket, every wait bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "refit/time/deadline.hpp"

namespace refit::transport {

/// Owns a file descriptor; closes it.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  ~UniqueFd();
  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] explicit operator bool() const noexcept { return fd_ >= 0; }
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

/// One framed message: a type the caller defines, a body, and descriptors that travel with it.
struct Message {
  std::uint32_t type = 0;
  std::string body;
  std::vector<UniqueFd> fds;
};

/// One end of a connected SOCK_STREAM Unix socket. Not thread-safe. Both ends are on one machine and of one
/// build: the frame is in native byte order.
class UnixChannel {
 public:
  /// Takes over a connected socket (a child's descriptor 3, say) and makes it close-on-exec; Error(runtime)
  /// when it is not a stream socket. `peer` says who is at the other end ("generator", "trainer") in every
  /// message.
  explicit UnixChannel(UniqueFd socket, std::string peer);
  /// A connected pair, close-on-exec. `first_peer` is whom the first one talks to: first.peer() ==
  /// first_peer.
  [[nodiscard]] static std::pair<UnixChannel, UnixChannel> pair(std::string first_peer,
                                                                std::string second_peer);

  /// Sends all of it or throws Error(runtime): peer gone (names the peer), or the deadline passed (says in
  /// what). Never raises SIGPIPE. At most 16 descriptors a message; bodies up to 1 GiB. What was cut off half
  /// way cannot be resumed: later calls throw, too. A large body needs a peer that reads: two ends that both
  /// send one at the same time, each from its only thread, wait for each other until their deadlines.
  void send(std::uint32_t type, std::string_view body, const std::vector<int>& fds, Deadline deadline);
  /// The next message, whole, even when the deadline has passed but it is there. The same errors; a body
  /// longer than `max_body` is refused before it is allocated. After a deadline without a single byte it may
  /// be called again.
  [[nodiscard]] Message receive(Deadline deadline, std::size_t max_body = 256u << 20);
  /// True when the beginning of a message, or the peer's end, can be read without waiting.
  [[nodiscard]] bool ready() const;

  [[nodiscard]] int fd() const noexcept { return socket_.get(); }
  /// The socket itself, to hand to a child process; the channel is of no use afterwards.
  [[nodiscard]] UniqueFd take_socket() && noexcept { return std::move(socket_); }
  [[nodiscard]] const std::string& peer() const noexcept { return peer_; }

 private:
  UniqueFd socket_;
  std::string peer_;
  bool send_cut_ = false;     ///< a message left half sent: the next header would be read as its body
  bool receive_cut_ = false;  ///< a message left half read: what follows is not a header
};

}  // namespace refit::transport
