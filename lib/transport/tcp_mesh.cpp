// A rank connects to all below it and is connected to by all above it.
#include "transport/tcp_mesh.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <thread>

#include "refit/base/digest.hpp"
#include "refit/base/error.hpp"
#include "refit/base/printable.hpp"
#include "transport/tcp_reception.hpp"

namespace refit::transport::tcp {
namespace {

/// Between two attempts to find rank 0, which may not have begun yet; and how long one may take.
constexpr std::chrono::milliseconds kBetweenCalls{50};
constexpr std::chrono::seconds kLongestAttempt{10};
/// Rank 0 knows who is missing, and says so at its own deadline, which may come a little later.
constexpr std::chrono::seconds kRank0sNews{1};

/// A rank in what rank 0 tells all.
struct Entry {
  AddressBytes address;
  std::uint32_t unused = 0;
  std::uint64_t host = 0;
};
static_assert(sizeof(Entry) == 32, "no padding travels");

/// Two containers of one machine have the kernel's number in common and names of their own.
std::uint64_t host_digest() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  utsname name{};
  ::uname(&name);
  return digest_text(boot + "\n" + name.nodename);
}

Hello hello_of(const Place& place) {
  return {.run = digest_text(place.run), .host = host_digest(), .size = place.size, .rank = place.rank};
}

std::set<GuestKey> those_above(const Place& place, std::initializer_list<Purpose> purposes) {
  std::set<GuestKey> expected;
  for (std::uint32_t rank = place.rank + 1; rank < place.size; ++rank) {
    for (const Purpose purpose : purposes) expected.insert({rank, purpose});
  }
  return expected;
}

/// The body of the answer to `hello` on a new connection. Nothing when the other end closed it, as a rank 0
/// does that ends: another may come. Error(input) when this rank is turned away, or somebody else answers.
std::optional<std::vector<std::byte>> introduce(int socket, const Hello& hello, const std::string& whom,
                                                Deadline deadline) {
  const auto check = [&](Piece piece) {
    if (piece == Piece::late) {
      fail_runtime(
          fmt::format("rank {} waited too long for {} to answer: ranks are missing there, or it is "
                      "something else that listens",
                      hello.rank, whom));
    }
    return piece == Piece::whole;
  };
  Answer head;
  if (!check(send_all(socket, std::as_bytes(std::span(&hello, 1)), deadline)) ||
      !check(receive_all(socket, std::as_writable_bytes(std::span(&head, 1)), deadline))) {
    return std::nullopt;
  }
  const bool welcome = head.verdict == Verdict::welcome;
  const std::size_t table = hello.purpose == Purpose::join ? hello.size * sizeof(Entry) : 0;
  if (head.magic != Hello::kMagic || head.bytes > (welcome ? table : Answer::kLongestReason)) {
    fail_input(fmt::format("what answers as {} is no rank of refit", whom));
  }
  std::vector<std::byte> body(head.bytes);
  if (!check(receive_all(socket, body, deadline))) return std::nullopt;
  if (welcome) return body;
  const std::string why = printable({reinterpret_cast<const char*>(body.data()), body.size()});
  if (head.verdict == Verdict::given_up) fail_runtime(why);
  fail_input(fmt::format("{} turned rank {} away: {}", whom, hello.rank, why));
}

struct Joined {
  std::vector<Entry> entries;
  UniqueFd listener;  ///< for the ranks above
};

/// Rank 0's: waits for all, and tells them.
std::vector<Entry> gather_entries(Reception& reception, const Place& place, Deadline deadline) {
  const std::map<GuestKey, Guest> guests = reception.receive(those_above(place, {Purpose::join}), deadline);
  std::vector<Entry> entries(place.size);
  entries.front().host = host_digest();
  for (const auto& [key, guest] : guests) {
    entries[key.first] = {.address = guest.from.with_port(guest.hello.port).bytes(),
                          .host = guest.hello.host};
  }
  for (const auto& [key, guest] : guests) {
    if (!answer(guest.socket.get(), std::as_bytes(std::span(entries)), deadline)) {
      fail_runtime(fmt::format("rank {} went away while the ranks met", key.first));
    }
  }
  return entries;
}

/// One attempt of another rank at one of rank 0's addresses. Nothing, and `problem`, when it may come right.
std::optional<Joined> try_to_join(const Address& address, const Place& place, const std::string& whom,
                                  std::string& problem, Deadline deadline) {
  const Deadline attempt = Deadline::after(kLongestAttempt);
  const Connected rank0 =
      connect_to(address, attempt.poll_milliseconds() < deadline.poll_milliseconds() ? attempt : deadline);
  if (!rank0.socket) {
    problem = fmt::format("{}: {}", address.text(), std::strerror(rank0.error));
    return std::nullopt;
  }
  Joined joined;
  Hello hello = hello_of(place);
  if (place.rank + 1 < place.size) {
    joined.listener = listen_beside(rank0.socket.get(), place.host);
    hello.port = own_of(joined.listener.get()).bytes().port;
  }
  const auto body = introduce(rank0.socket.get(), hello, whom, deadline.later(kRank0sNews));
  if (!body || body->size() != place.size * sizeof(Entry)) {
    problem = fmt::format("{}: the connection was closed", address.text());
    return std::nullopt;
  }
  joined.entries.resize(place.size);
  std::memcpy(joined.entries.data(), body->data(), body->size());
  // Who came to rank 0 over the loopback is on its host, and so is reached where rank 0 is.
  joined.entries.front().address = address.bytes();
  for (Entry& entry : joined.entries) {
    const Address theirs(entry.address);
    if (theirs.is_loopback()) entry.address = address.with_port(theirs.bytes().port).bytes();
  }
  return joined;
}

Joined join_rank0(const Place& place, Deadline deadline) {
  const std::string whom = fmt::format("rank 0 at {}:{}", printable(place.host), place.port);
  for (std::string problem;;) {
    const Resolved resolved = resolve(place.host, place.port);
    if (resolved.addresses.empty()) problem = resolved.problem;
    for (const Address& address : resolved.addresses) {
      if (auto joined = try_to_join(address, place, whom, problem, deadline)) return std::move(*joined);
    }
    if (deadline.passed()) {
      fail_runtime(fmt::format("rank {} did not find {} ({})", place.rank, whom, problem));
    }
    std::this_thread::sleep_for(kBetweenCalls);
  }
}

UniqueFd connect_below(std::uint32_t rank, const Entry& entry, const Place& place, Purpose purpose,
                       Deadline deadline) {
  const Address address(entry.address);
  Connected result = connect_to(address, deadline);
  Hello hello = hello_of(place);
  hello.purpose = purpose;
  const std::string whom = fmt::format("rank {} at {}", rank, address.text());
  if (!result.socket) {
    fail_runtime(
        fmt::format("rank {} cannot connect to {}: {}", place.rank, whom, std::strerror(result.error)));
  }
  if (!introduce(result.socket.get(), hello, whom, deadline)) {
    fail_runtime(fmt::format("{} closed the connection of rank {}", whom, place.rank));
  }
  return std::move(result.socket);
}

}  // namespace

Mesh meet(const Place& place, std::vector<UniqueFd> listeners, Deadline deadline) {
  Joined joined;
  if (place.rank > 0) {
    joined = join_rank0(place, deadline);
    if (joined.listener) listeners.push_back(std::move(joined.listener));
  }
  Reception reception(std::move(listeners), hello_of(place));
  if (place.rank == 0) joined.entries = gather_entries(reception, place, deadline);

  Mesh mesh;
  mesh.control.resize(place.size);
  mesh.data.resize(place.size);
  for (std::uint32_t rank = 0; rank < place.rank; ++rank) {
    mesh.control[rank] = connect_below(rank, joined.entries[rank], place, Purpose::control, deadline);
    mesh.data[rank] = connect_below(rank, joined.entries[rank], place, Purpose::data, deadline);
  }
  for (auto& [key, guest] :
       reception.receive(those_above(place, {Purpose::control, Purpose::data}), deadline)) {
    (key.second == Purpose::control ? mesh.control : mesh.data)[key.first] = std::move(guest.socket);
  }
  for (const UniqueFd& socket : mesh.control) {
    if (socket) notice_dead_hosts(socket.get());
  }
  const auto is_here = [&](const Entry& entry) { return entry.host == joined.entries[place.rank].host; };
  const auto begin = joined.entries.begin();
  mesh.local_rank = place.local_rank.value_or(
      static_cast<std::uint32_t>(std::count_if(begin, begin + place.rank, is_here)));
  mesh.ranks_on_this_host = place.ranks_on_this_host.value_or(
      static_cast<std::uint32_t>(std::count_if(begin, joined.entries.end(), is_here)));
  return mesh;
}

}  // namespace refit::transport::tcp
