// One lock for everything: messages are few and small, and no call under it waits.
#include "transport/tcp_control.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "refit/base/error.hpp"
#include "refit/base/printable.hpp"
#include "transport/rank_words.hpp"

namespace refit::transport::tcp {
namespace {

constexpr std::uint64_t kMostGathered = std::uint64_t{1} << 30;
constexpr std::size_t kLongestText = 1000;
/// A rank can have given to the gather that this rank is at, and to the next.
constexpr std::size_t kMostAhead = 2;
/// Bytes are allocated as they arrive, so many at a time.
constexpr std::size_t kPiece = std::size_t{1} << 20;

/// A rank that ends because of another says so before its connection ends; one whose connection ends is the
/// first. That it could not say so is rare, and told by others soon.
constexpr std::chrono::milliseconds kOthersNews{100};
/// Data may break before the control connection does.
constexpr std::chrono::milliseconds kBrokenData{1000};
/// For the words to leave with which a rank ends.
constexpr std::chrono::milliseconds kLastWords{300};
constexpr std::chrono::milliseconds kBetweenLooks{5};
constexpr std::chrono::seconds kLongestLeave{60};

}  // namespace

Control::Control(std::uint32_t rank, std::vector<UniqueFd> sockets, OnLoss on_loss)
    : rank_(rank), on_loss_(std::move(on_loss)), peers_(sockets.size()) {
  for (std::size_t i = 0; i < sockets.size(); ++i) peers_[i].socket = std::move(sockets[i]);
  doing("starting");
  thread_ = std::thread([this] { run(); });
}

Control::~Control() {
  {
    const std::lock_guard locked(mutex_);
    leave_by_ = Clock::now() + kLongestLeave;
    send_to_all(message(Kind::goodbye, {}));
  }
  wakeup_.wake();
  thread_.join();
}

// --- what the rank's own thread calls

std::vector<std::string> Control::all_gather(std::string_view mine, Deadline deadline) {
  if (mine.size() > kMostGathered) {
    fail_runtime(fmt::format("rank {} says {} bytes to all others at once", rank_, mine.size()));
  }
  std::unique_lock locked(mutex_);
  send_to_all(message(Kind::gather, mine));
  wakeup_.wake();
  while (!all_gave()) {
    if (loss_) fail_runtime(*loss_);
    const auto left = std::find_if(peers_.begin(), peers_.end(),
                                   [](const Peer& peer) { return peer.left && peer.gathered.empty(); });
    if (left != peers_.end()) {
      because_ = gone(static_cast<std::uint32_t>(left - peers_.begin()));
      fail_runtime(because_);
    }
    if (deadline.passed()) {
      const std::string names = missing();
      locked.unlock();
      fail_late(names);
    }
    changed_.wait_for(locked, std::chrono::milliseconds(deadline.poll_milliseconds()));
  }
  std::vector<std::string> said;
  std::uint64_t total = 0;
  for (Peer& peer : peers_) {
    if (is_self(peer)) {
      said.emplace_back(mine);
    } else {
      said.push_back(std::move(peer.gathered.front()));
      peer.gathered.pop_front();
    }
    total += said.back().size();
  }
  if (total > kMostGathered) fail_runtime(fmt::format("ranks say {} bytes to each other at once", total));
  return said;
}

void Control::doing(std::string_view what) noexcept {
  const std::lock_guard locked(mutex_);
  doing_size_ = what.copy(doing_.data(), doing_.size());
  for (Peer& peer : peers_) peer.tell_doing = true;
  wakeup_.wake();
}

std::string Control::describe(std::uint32_t rank) {
  const std::lock_guard locked(mutex_);
  return rank_that_does(rank, peers_[rank].doing);
}

std::optional<std::string> Control::loss() {
  const std::lock_guard locked(mutex_);
  return loss_;
}

void Control::fail_late(const std::string& names) {
  {
    const std::lock_guard locked(mutex_);
    because_ = fmt::format("rank {} waited too long for {}", rank_, names);
  }
  fail_runtime(fmt::format("waited too long for {}", names));
}

void Control::suspect(std::uint32_t rank) {
  {
    const std::lock_guard locked(mutex_);
    conclude(fmt::format("the connection to {} broke", rank_that_does(rank, peers_[rank].doing)),
             kBrokenData);
  }
  wakeup_.wake();
}

void Control::tell_ending() noexcept {
  try {
    std::unique_lock locked(mutex_);
    if (loss_ || std::this_thread::get_id() == thread_.get_id()) return;  // they know
    send_to_all(message(Kind::ending, because_));
    wakeup_.wake();
    for (const Deadline end = Deadline::after(kLastWords); !all_sent() && !end.passed();) {
      changed_.wait_for(locked, kBetweenLooks);
    }
  } catch (const std::exception&) {
    // The end of the connections says nearly as much.
  }
}

// --- the thread

void Control::run() {
  std::unique_lock locked(mutex_);
  for (flush_all(); !finished(); flush_all()) {
    poll_once(locked);
    if (verdict_ && !loss_ && Clock::now() >= verdict_->at) carry_out(locked);
  }
}

int Control::poll_milliseconds() const {
  std::optional<Clock::time_point> until = leave_by_;
  if (verdict_ && !loss_) until = std::min(until.value_or(verdict_->at), verdict_->at);
  return until ? Deadline(*until).poll_milliseconds() : -1;
}

void Control::poll_once(std::unique_lock<std::mutex>& locked) {
  std::vector<pollfd> polled = {{wakeup_.fd(), POLLIN, 0}, {signalled_ ? -1 : signal_.fd(), POLLIN, 0}};
  for (const Peer& peer : peers_) {
    const int events = POLLIN | (peer.out.empty() ? 0 : POLLOUT);
    polled.push_back({peer.socket.get(), static_cast<short>(events), 0});
  }
  const int wait = poll_milliseconds();
  locked.unlock();
  const int ready = ::poll(polled.data(), polled.size(), wait);
  locked.lock();
  if (ready <= 0) return;
  if (polled[0].revents != 0) wakeup_.clear();
  for (std::uint32_t rank = 0; rank < size(); ++rank) {
    if ((polled[rank + 2].revents & ~POLLOUT) != 0) read(rank);
  }
  if (polled[1].revents != 0) {
    signalled_ = true;
    conclude(LauncherSignal::kSentence, LauncherSignal::kNews, true);
  }
}

void Control::flush_all() {
  for (std::uint32_t rank = 0; rank < size(); ++rank) flush(rank);
}

void Control::flush(std::uint32_t rank) {
  Peer& peer = peers_[rank];
  while (peer.socket) {
    if (peer.out.empty()) {
      if (!std::exchange(peer.tell_doing, false)) return;
      peer.out.push_back(message(Kind::doing, {doing_.data(), doing_size_}));
    }
    const std::string_view left = std::string_view(*peer.out.front()).substr(peer.sent);
    const ssize_t count = ::send(peer.socket.get(), left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return;  // it takes no more for now, or reading tells that it has ended
    peer.sent += static_cast<std::size_t>(count);
    if (static_cast<std::size_t>(count) < left.size()) continue;
    peer.out.pop_front();
    peer.sent = 0;
  }
}

void Control::read(std::uint32_t rank) {
  Peer& peer = peers_[rank];
  while (peer.socket && read_piece(peer, rank)) {
    if (peer.head_got < sizeof(Head)) continue;
    if (!makes_sense(peer)) {
      conclude(fmt::format("rank {} says what no rank of this version says", rank), {});
      peer.socket = UniqueFd();
      return;
    }
    if (peer.body_got == peer.head.bytes) take(rank);
  }
}

/// False when there is nothing to read for now.
bool Control::read_piece(Peer& peer, std::uint32_t rank) {
  const bool in_head = peer.head_got < sizeof(Head);
  if (!in_head) peer.body.resize(std::min<std::uint64_t>(peer.head.bytes, peer.body_got + kPiece));
  char* const into =
      in_head ? reinterpret_cast<char*>(&peer.head) + peer.head_got : peer.body.data() + peer.body_got;
  const std::size_t most = in_head ? sizeof(Head) - peer.head_got : peer.body.size() - peer.body_got;
  const ssize_t count = ::recv(peer.socket.get(), into, most, MSG_DONTWAIT);
  if (count < 0 && errno == EINTR) return true;
  if (count < 0 && errno == EAGAIN) return false;
  if (count <= 0) {
    end_connection(rank);
    return false;
  }
  (in_head ? peer.head_got : peer.body_got) += static_cast<std::size_t>(count);
  return true;
}

void Control::take(std::uint32_t rank) {
  Peer& peer = peers_[rank];
  const Kind kind = peer.head.kind;
  std::string body = std::move(peer.body);
  peer.head_got = peer.body_got = 0;
  peer.body.clear();
  if (kind == Kind::doing) {
    peer.doing = printable(body);
    return;
  }
  if (kind == Kind::gather) {
    peer.gathered.push_back(std::move(body));
    if (!all_gave()) return;  // one wake-up for all
  } else if (kind == Kind::goodbye) {
    peer.left = true;
  } else if (kind == Kind::signalled) {
    peer.signalled = true;
    conclude(gone(rank), LauncherSignal::kNews, true);
  } else {
    conclude(body.empty() ? gone(rank) : printable(body), {});
  }
  changed_.notify_all();
}

void Control::end_connection(std::uint32_t rank) {
  Peer& peer = peers_[rank];
  peer.socket = UniqueFd();
  peer.out.clear();
  if (!peer.left && !peer.signalled) conclude(gone(rank), kOthersNews);
  changed_.notify_all();
}

/// The first reason stays, but for a weak one, and for one that needs no waiting.
void Control::conclude(std::string sentence, std::chrono::milliseconds grace, bool weak) {
  const Clock::time_point at = Clock::now() + grace;
  if (verdict_ && (weak || (!verdict_->weak && at >= verdict_->at))) return;
  verdict_ = {std::move(sentence), at, weak};
}

void Control::carry_out(std::unique_lock<std::mutex>& locked) {
  const Verdict verdict = *verdict_;
  const bool by_launcher = verdict.sentence == LauncherSignal::kSentence;
  send_to_all(by_launcher ? message(Kind::signalled, {}) : message(Kind::ending, verdict.sentence));
  flush_for_a_moment(locked);
  locked.unlock();
  on_loss_(verdict.sentence);
  locked.lock();
  loss_ = verdict.sentence;
  changed_.notify_all();
}

void Control::flush_for_a_moment(std::unique_lock<std::mutex>& locked) {
  const Deadline end = Deadline::after(kLastWords);
  for (flush_all(); !all_sent() && !end.passed(); flush_all()) {
    locked.unlock();
    std::this_thread::sleep_for(kBetweenLooks);
    locked.lock();
  }
}

bool Control::all_sent() const {
  return std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.out.empty(); });
}

bool Control::finished() const {
  if (!leave_by_) return false;
  if (Clock::now() >= *leave_by_) return true;
  // Where something went wrong, the others do not come to their end either.
  const bool all_left =
      std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.left || !peer.socket; });
  return all_sent() && (loss_ || (all_left && !verdict_));
}

void Control::send_to_all(const Message& message) {
  for (Peer& peer : peers_) {
    if (peer.socket) peer.out.push_back(message);
  }
}

Control::Message Control::message(Kind kind, std::string_view body) {
  if (kind == Kind::ending) body = body.substr(0, kLongestText);
  const Head head{.kind = kind, .bytes = body.size()};
  std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
  bytes += body;
  return std::make_shared<const std::string>(std::move(bytes));
}

bool Control::makes_sense(const Peer& peer) noexcept {
  switch (peer.head.kind) {
    case Kind::doing:
    case Kind::ending:
      return peer.head.bytes <= kLongestText;
    case Kind::gather:
      return peer.head.bytes <= kMostGathered && peer.gathered.size() < kMostAhead;
    case Kind::goodbye:
    case Kind::signalled:
      return peer.head.bytes == 0;
  }
  return false;
}

bool Control::all_gave() const {
  return std::all_of(peers_.begin(), peers_.end(),
                     [this](const Peer& peer) { return is_self(peer) || !peer.gathered.empty(); });
}

std::string Control::missing() const {
  std::string names;
  for (std::uint32_t rank = 0; rank < size(); ++rank) {
    if (rank == rank_ || !peers_[rank].gathered.empty()) continue;
    names += (names.empty() ? "" : ", ") + rank_that_does(rank, peers_[rank].doing);
  }
  return names;
}

std::string Control::gone(std::uint32_t rank) const {
  return rank_is_gone(rank, peers_[rank].doing);
}

}  // namespace refit::transport::tcp
