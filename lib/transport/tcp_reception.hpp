// Who connects says who it is; whoever is not expected is turned away.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "refit/transport/tcp.hpp"
#include "transport/tcp_socket.hpp"

namespace refit::transport::tcp {

enum class Purpose : std::uint16_t { join = 1, control = 2, data = 3 };

/// The first bytes of every connection, in native byte order: the magic number tells another.
struct Hello {
  static constexpr std::uint64_t kMagic = 0x706374746966'6572;  // "refittcp"
  static constexpr std::uint32_t kProtocol = 1;

  std::uint64_t magic = kMagic;
  std::uint64_t run = 0;   ///< digest of its name
  std::uint64_t host = 0;  ///< digest of what only ranks of one host share
  std::uint32_t protocol = kProtocol;
  std::uint32_t size = 0, rank = 0;
  Purpose purpose = Purpose::join;
  std::uint16_t port = 0;  ///< join: where this rank listens
};
static_assert(sizeof(Hello) == 40, "no padding travels");

enum class Verdict : std::uint32_t { turned_away = 0, welcome = 1, given_up = 2 };

/// What comes back, and `bytes` that follow: why not (a text), or with join what the other needs to know.
struct Answer {
  static constexpr std::uint32_t kLongestReason = 1000;

  std::uint64_t magic = Hello::kMagic;
  Verdict verdict = Verdict::welcome;
  std::uint32_t bytes = 0;
};
static_assert(sizeof(Answer) == 16, "no padding travels");

/// False when the other end is gone or does not take it.
bool answer(int socket, std::span<const std::byte> bytes, Deadline deadline);
void refuse(int socket, Verdict verdict, std::string_view why);

struct Guest {
  UniqueFd socket;
  Hello hello;
  Address from;
};
using GuestKey = std::pair<std::uint32_t, Purpose>;

class Reception {
 public:
  Reception(std::vector<UniqueFd> listeners, Hello own) : listeners_(std::move(listeners)), own_(own) {}

  /// One connection of each of these. Guests to join wait for their answer and may be replaced while they do,
  /// when they go away; the others are welcomed at once. Error(runtime) that names who did not come.
  [[nodiscard]] std::map<GuestKey, Guest> receive(const std::set<GuestKey>& expected, Deadline deadline);

 private:
  struct Newcomer {
    UniqueFd socket;
    Deadline until;
    std::array<std::byte, sizeof(Hello)> bytes{};
    std::size_t got = 0;
  };

  void accept(int listener);
  /// False when nothing more is to be read from it: turned away, or among the guests.
  [[nodiscard]] bool read(Newcomer& newcomer, const std::set<GuestKey>& expected);
  void judge(Newcomer& newcomer, const Hello& hello, const std::set<GuestKey>& expected);
  /// Why not; empty for a welcome guest.
  [[nodiscard]] std::string objection(const Hello& hello, const std::set<GuestKey>& expected) const;
  [[noreturn]] void give_up(const std::set<GuestKey>& expected);
  /// A guest is gone.
  void lose(const GuestKey& key);
  [[nodiscard]] std::string missing(const std::set<GuestKey>& expected) const;

  std::vector<UniqueFd> listeners_;
  Hello own_;
  std::vector<Newcomer> newcomers_;
  std::map<GuestKey, Guest> guests_;
  std::string last_refusal_;
};

}  // namespace refit::transport::tcp
