// Addresses and sockets of TCP, IPv4 and IPv6: listening, connecting, and whole pieces of bytes with a
// deadline.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "refit/time/deadline.hpp"
#include "refit/transport/unix_channel.hpp"

namespace refit::transport::tcp {

/// An address as it travels.
struct AddressBytes {
  std::array<std::uint8_t, 16> bytes{};  ///< of IPv4 the first four
  std::uint16_t family = 0;              ///< 4 or 6
  std::uint16_t port = 0;
};

class Address {
 public:
  Address() = default;
  Address(const sockaddr* address, socklen_t size) noexcept;
  explicit Address(const AddressBytes& bytes) noexcept;
  [[nodiscard]] const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage_); }
  [[nodiscard]] socklen_t size() const noexcept { return size_; }
  [[nodiscard]] AddressBytes bytes() const noexcept;
  [[nodiscard]] Address with_port(std::uint16_t port) const noexcept;
  [[nodiscard]] bool is_loopback() const noexcept;
  /// "10.0.0.1:29500", "[fd00::1]:29500".
  [[nodiscard]] std::string text() const;

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

/// Where a connection comes from, IPv4 also when it came to a socket of IPv6; and this end of it.
[[nodiscard]] Address peer_of(int socket);
[[nodiscard]] Address own_of(int socket);

struct Resolved {
  std::vector<Address> addresses;
  std::string problem;  ///< why there are none
};
[[nodiscard]] Resolved resolve(const std::string& host, std::uint16_t port);

/// Sockets that listen at this port (0: any that is free), on the loopback alone where `host` names it
/// (localhost, 127.x.x.x, ::1), else on every interface. Error of errno's kind.
[[nodiscard]] std::vector<UniqueFd> listen_at(const std::string& host, std::uint16_t port);
/// At any port, for those who can be told this end's address of a connection to `host`.
[[nodiscard]] UniqueFd listen_beside(int socket, const std::string& host);

/// A connected socket, or the errno of why not.
struct Connected {
  UniqueFd socket;
  int error = 0;
};
[[nodiscard]] Connected connect_to(const Address& address, Deadline deadline);

/// The next connection that waits at a listening socket; none where there is none any more.
[[nodiscard]] UniqueFd accept_at(int listener);

enum class Piece { whole, cut, late };  ///< cut: the other end is gone
[[nodiscard]] Piece send_all(int socket, std::span<const std::byte> bytes, Deadline deadline);
[[nodiscard]] Piece receive_all(int socket, std::span<std::byte> bytes, Deadline deadline);

/// For a connection whose ends always read: an end whose host is dead is noticed within half a minute. An end
/// that does not read for a while would be taken for dead, too.
void notice_dead_hosts(int socket) noexcept;

}  // namespace refit::transport::tcp
