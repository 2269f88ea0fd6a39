// All sockets are non-blocking and close-on-exec; poll() does the waiting.
#include "transport/tcp_socket.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "refit/base/errno_kind.hpp"
#include "transport/system_error.hpp"

namespace refit::transport::tcp {
namespace {

constexpr int kFlags = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

void set(int socket, int level, int option, int value) noexcept {
  ::setsockopt(socket, level, option, &value, sizeof value);
}

bool wait_for(int socket, short events, Deadline deadline) noexcept {
  for (;;) {
    pollfd one{.fd = socket, .events = events, .revents = 0};
    const int ready = ::poll(&one, 1, deadline.poll_milliseconds());
    if (ready > 0) return true;
    if (ready == 0 && deadline.passed()) return false;
    if (ready < 0 && errno != EINTR) return false;
  }
}

/// move(bytes still to go) is send or recv.
template <typename Bytes, typename Move>
Piece move_all(int socket, short events, Bytes bytes, Deadline deadline, const Move& move) {
  while (!bytes.empty()) {
    const ssize_t count = move(bytes);
    if (count > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    } else if (count < 0 && errno == EAGAIN) {
      if (!wait_for(socket, events, deadline)) return Piece::late;
    } else if (count == 0 || errno != EINTR) {
      return Piece::cut;
    }
  }
  return Piece::whole;
}

/// A bound and listening socket; errno where it cannot be.
Connected listen_on(const Address& address) {
  Connected result{UniqueFd(::socket(address.get()->sa_family, kFlags, 0)), 0};
  const int socket = result.socket.get();
  if (address.get()->sa_family == AF_INET6) {
    set(socket, IPPROTO_IPV6, IPV6_V6ONLY, address.is_loopback() ? 1 : 0);
  }
  set(socket, SOL_SOCKET, SO_REUSEADDR, 1);  // connections of the last run may linger at it
  if (socket < 0 || ::bind(socket, address.get(), address.size()) != 0 || ::listen(socket, SOMAXCONN) != 0) {
    result = {UniqueFd(), errno};
  }
  return result;
}

bool names_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

Address any_of(sa_family_t family) {
  if (family == AF_INET6) {
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    return {reinterpret_cast<const sockaddr*>(&any), sizeof any};
  }
  sockaddr_in any{};
  any.sin_family = AF_INET;
  return {reinterpret_cast<const sockaddr*>(&any), sizeof any};
}

/// A socket of IPv6 takes connections of IPv4, too, where there is IPv6 at all.
std::vector<Address> everywhere() {
  return {any_of(AF_INET6), any_of(AF_INET)};
}

/// At every one of these addresses that this machine has, or at the first. Error of errno's kind when there
/// is none, or when somebody has the port already.
std::vector<UniqueFd> listen_on_some(const std::vector<Address>& wanted, std::uint16_t port,
                                     const std::string& where, bool every) {
  std::vector<UniqueFd> listeners;
  std::vector<std::string> done;
  int error = 0;
  for (const Address& address : wanted) {
    // A name can mean one address twice.
    if (std::find(done.begin(), done.end(), address.text()) != done.end()) continue;
    done.push_back(address.text());
    Connected result = listen_on(address.with_port(port));
    error = result.error;
    if (result.socket) listeners.push_back(std::move(result.socket));
    if (error == EADDRINUSE || (!every && !listeners.empty())) break;
  }
  if (listeners.empty() || error == EADDRINUSE) {
    throw Error(kind_of_errno(error),
                fmt::format("port {} of {} cannot be listened at: {}{}", port, where, std::strerror(error),
                            error == EADDRINUSE ? "; set REFIT_MASTER_PORT to one that is free" : ""));
  }
  return listeners;
}

template <typename Get>
Address address_by(int socket, const Get& get) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (get(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
  return {reinterpret_cast<const sockaddr*>(&storage), size};
}

}  // namespace

Address::Address(const sockaddr* address, socklen_t size) noexcept : size_(size) {
  std::memcpy(&storage_, address, std::min<std::size_t>(size, sizeof storage_));
  if (storage_.ss_family != AF_INET6) return;
  sockaddr_in6 six{};
  std::memcpy(&six, &storage_, sizeof six);
  if (!IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) return;
  AddressBytes four{.family = 4, .port = ntohs(six.sin6_port)};
  std::copy_n(six.sin6_addr.s6_addr + 12, 4, four.bytes.begin());
  *this = Address(four);
}

Address::Address(const AddressBytes& bytes) noexcept {
  if (bytes.family == 4) {
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_port = htons(bytes.port);
    std::memcpy(&four.sin_addr, bytes.bytes.data(), sizeof four.sin_addr);
    std::memcpy(&storage_, &four, size_ = sizeof four);
  } else {
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(bytes.port);
    std::memcpy(&six.sin6_addr, bytes.bytes.data(), sizeof six.sin6_addr);
    std::memcpy(&storage_, &six, size_ = sizeof six);
  }
}

AddressBytes Address::bytes() const noexcept {
  AddressBytes out;
  if (storage_.ss_family == AF_INET) {
    sockaddr_in four{};
    std::memcpy(&four, &storage_, sizeof four);
    std::memcpy(out.bytes.data(), &four.sin_addr, sizeof four.sin_addr);
    out.family = 4;
    out.port = ntohs(four.sin_port);
  } else if (storage_.ss_family == AF_INET6) {
    sockaddr_in6 six{};
    std::memcpy(&six, &storage_, sizeof six);
    std::memcpy(out.bytes.data(), &six.sin6_addr, sizeof six.sin6_addr);
    out.family = 6;
    out.port = ntohs(six.sin6_port);
  }
  return out;
}

Address Address::with_port(std::uint16_t port) const noexcept {
  AddressBytes changed = bytes();
  changed.port = port;
  return Address(changed);
}

bool Address::is_loopback() const noexcept {
  const AddressBytes own = bytes();
  if (own.family == 4) return own.bytes[0] == 127;
  return own.family == 6 && std::equal(own.bytes.begin(), own.bytes.end(), in6addr_loopback.s6_addr);
}

std::string Address::text() const {
  const AddressBytes own = bytes();
  if (own.family == 0) return "an address that is not known";
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(own.family == 4 ? AF_INET : AF_INET6, own.bytes.data(), text.data(), text.size());
  return fmt::format(fmt::runtime(own.family == 4 ? "{}:{}" : "[{}]:{}"), text.data(), own.port);
}

Address peer_of(int socket) {
  return address_by(socket, ::getpeername);
}

Address own_of(int socket) {
  return address_by(socket, ::getsockname);
}

Resolved resolve(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  Resolved resolved;
  if (const int problem = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found)) {
    resolved.problem = problem == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(problem);
    return resolved;
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (one->ai_family == AF_INET || one->ai_family == AF_INET6) {
      resolved.addresses.emplace_back(one->ai_addr, one->ai_addrlen);
    }
  }
  if (resolved.addresses.empty()) resolved.problem = "it has no address of IPv4 or IPv6";
  return resolved;
}

std::vector<UniqueFd> listen_at(const std::string& host, std::uint16_t port) {
  const bool loopback = names_loopback(host);
  std::vector<Address> wanted = everywhere();
  if (loopback) {
    Resolved resolved = resolve(host, port);
    if (resolved.addresses.empty()) {
      fail_input(fmt::format("the host {} is not known: {}", host, resolved.problem));
    }
    wanted = std::move(resolved.addresses);
  }
  return listen_on_some(wanted, port, loopback ? host : "this host", loopback);
}

UniqueFd listen_beside(int socket, const std::string& host) {
  const std::vector<Address> wanted =
      names_loopback(host) ? std::vector<Address>{own_of(socket)} : everywhere();
  return std::move(listen_on_some(wanted, 0, "this host", false).front());
}

Connected connect_to(const Address& address, Deadline deadline) {
  Connected result{UniqueFd(::socket(address.get()->sa_family, kFlags, 0)), 0};
  const int socket = result.socket.get();
  if (socket < 0) return {UniqueFd(), errno};
  int error = 0;
  if (::connect(socket, address.get(), address.size()) != 0) {
    if (errno != EINPROGRESS) return {UniqueFd(), errno};
    if (!wait_for(socket, POLLOUT, deadline)) return {UniqueFd(), ETIMEDOUT};
    socklen_t size = sizeof error;
    ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error != 0) return {UniqueFd(), error};
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  return result;
}

UniqueFd accept_at(int listener) {
  UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket) {
    set(socket.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
    fail_system(errno, "accepting a connection of another rank");
  }
  return socket;
}

Piece send_all(int socket, std::span<const std::byte> bytes, Deadline deadline) {
  return move_all(socket, POLLOUT, bytes, deadline, [&](std::span<const std::byte> left) {
    return ::send(socket, left.data(), left.size(), MSG_NOSIGNAL);
  });
}

Piece receive_all(int socket, std::span<std::byte> bytes, Deadline deadline) {
  return move_all(socket, POLLIN, bytes, deadline,
                  [&](std::span<std::byte> left) { return ::recv(socket, left.data(), left.size(), 0); });
}

void notice_dead_hosts(int socket) noexcept {
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);
}

}  // namespace refit::transport::tcp
