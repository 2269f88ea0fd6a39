// One loop over listening sockets, those who have not said all, and those who wait.
#include "transport/tcp_reception.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "refit/base/error.hpp"
#include "transport/rank_words.hpp"

namespace refit::transport::tcp {
namespace {

/// A rank says who it is at once. More than these at a time are no ranks: the oldest goes.
constexpr std::chrono::seconds kPatience{5};
constexpr std::size_t kMostNewcomers = 256;
/// An answer fits what the kernel buffers.
constexpr std::chrono::seconds kAnswerTime{5};

/// False where there is nothing to read yet; the bytes then say what came, or that the other end is gone (0).
bool receive_some(int socket, std::span<std::byte> into, std::size_t& count) {
  const ssize_t got = ::recv(socket, into.data(), into.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  count = got > 0 ? static_cast<std::size_t>(got) : 0;
  return true;
}

}  // namespace

bool answer(int socket, std::span<const std::byte> bytes, Deadline deadline) {
  const Answer head{.bytes = static_cast<std::uint32_t>(bytes.size())};
  return send_all(socket, std::as_bytes(std::span(&head, 1)), deadline) == Piece::whole &&
         send_all(socket, bytes, deadline) == Piece::whole;
}

void refuse(int socket, Verdict verdict, std::string_view why) {
  why = why.substr(0, Answer::kLongestReason);
  const Answer head{.verdict = verdict, .bytes = static_cast<std::uint32_t>(why.size())};
  std::string message(reinterpret_cast<const char*>(&head), sizeof head);
  message += why;
  (void)send_all(socket, std::as_bytes(std::span(message)), Deadline::after(kAnswerTime));
}

std::map<GuestKey, Guest> Reception::receive(const std::set<GuestKey>& expected, Deadline deadline) {
  guests_.clear();
  while (guests_.size() < expected.size()) {
    if (deadline.passed()) give_up(expected);
    std::vector<pollfd> polled;
    for (const UniqueFd& listener : listeners_) polled.push_back({listener.get(), POLLIN, 0});
    for (const Newcomer& newcomer : newcomers_) polled.push_back({newcomer.socket.get(), POLLIN, 0});
    int wait = deadline.poll_milliseconds();
    for (const Newcomer& newcomer : newcomers_) wait = std::min(wait, newcomer.until.poll_milliseconds());
    std::vector<GuestKey> keys;
    for (const auto& [key, guest] : guests_) {
      polled.push_back({guest.socket.get(), POLLRDHUP, 0});
      keys.push_back(key);
    }
    ::poll(polled.data(), polled.size(), wait);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (polled[polled.size() - keys.size() + i].revents != 0) lose(keys[i]);
    }
    std::vector<Newcomer> staying;
    for (Newcomer& newcomer : std::exchange(newcomers_, {})) {
      if (read(newcomer, expected) && !newcomer.until.passed()) staying.push_back(std::move(newcomer));
    }
    newcomers_ = std::move(staying);
    for (std::size_t i = 0; i < listeners_.size(); ++i) {
      if (polled[i].revents != 0) accept(polled[i].fd);
    }
  }
  return std::exchange(guests_, {});
}

void Reception::accept(int listener) {
  UniqueFd socket = accept_at(listener);
  if (!socket) return;
  if (newcomers_.size() == kMostNewcomers) newcomers_.erase(newcomers_.begin());
  newcomers_.push_back({std::move(socket), Deadline::after(kPatience), {}, 0});
}

bool Reception::read(Newcomer& newcomer, const std::set<GuestKey>& expected) {
  std::size_t count = 0;
  if (!receive_some(newcomer.socket.get(), std::span(newcomer.bytes).subspan(newcomer.got), count))
    return true;
  newcomer.got += count;
  if (count == 0) return false;
  Hello hello;
  std::memcpy(&hello, newcomer.bytes.data(), newcomer.got);
  if (hello.magic != Hello::kMagic) return false;  // what came of it is the beginning of that number
  if (newcomer.got < sizeof hello) return true;
  judge(newcomer, hello, expected);
  return false;
}

void Reception::judge(Newcomer& newcomer, const Hello& hello, const std::set<GuestKey>& expected) {
  const std::string why = objection(hello, expected);
  const Address from = peer_of(newcomer.socket.get());
  if (!why.empty()) {
    last_refusal_ = fmt::format("{}: {}", from.text(), why);
    refuse(newcomer.socket.get(), Verdict::turned_away, why);
    return;
  }
  if (hello.purpose != Purpose::join && !answer(newcomer.socket.get(), {}, Deadline::after(kAnswerTime))) {
    return;
  }
  guests_[{hello.rank, hello.purpose}] = {std::move(newcomer.socket), hello, from};
}

std::string Reception::objection(const Hello& hello, const std::set<GuestKey>& expected) const {
  if (hello.protocol != own_.protocol) {
    return fmt::format("it speaks version {} of the protocol, rank {} version {}", hello.protocol, own_.rank,
                       own_.protocol);
  }
  if (hello.run != own_.run) return "it is of another run (TORCHELASTIC_RUN_ID, TORCHELASTIC_RESTART_COUNT)";
  if (hello.size != own_.size) {
    return fmt::format("it is one of {} ranks, and rank {} is one of {}", hello.size, own_.rank, own_.size);
  }
  const GuestKey key{hello.rank, hello.purpose};
  if (guests_.contains(key)) return fmt::format("there is a rank {} already", hello.rank);
  if (!expected.contains(key)) return fmt::format("no rank {} is expected any more", hello.rank);
  return {};
}

void Reception::give_up(const std::set<GuestKey>& expected) {
  const std::string where = listeners_.empty() ? "" : own_of(listeners_.front().get()).text();
  const std::string why =
      fmt::format("rank {} waited too long at {} for {}{}", own_.rank, where, missing(expected),
                  last_refusal_.empty() ? "" : "; turned away " + last_refusal_);
  for (const auto& [key, guest] : guests_) {
    if (key.second == Purpose::join) refuse(guest.socket.get(), Verdict::given_up, why);
  }
  fail_runtime(why);
}

void Reception::lose(const GuestKey& key) {
  if (key.second != Purpose::join) fail_runtime(rank_is_gone(key.first, "starting"));
  guests_.erase(key);
}

std::string Reception::missing(const std::set<GuestKey>& expected) const {
  std::string names;
  std::set<std::uint32_t> named;
  for (const GuestKey& key : expected) {
    if (guests_.contains(key) || !named.insert(key.first).second) continue;
    names += fmt::format("{}rank {}", names.empty() ? "" : ", ", key.first);
  }
  return names;
}

}  // namespace refit::transport::tcp
