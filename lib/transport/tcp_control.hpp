// What ranks say to each other, and who of them is gone: one thread reads and writes all control connections.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "refit/time/deadline.hpp"
#include "refit/transport/session.hpp"
#include "transport/signals.hpp"

namespace refit::transport::tcp {

class Control {
 public:
  /// Takes over one connection to each other rank, by rank.
  Control(std::uint32_t rank, std::vector<UniqueFd> sockets, OnLoss on_loss);
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;
  /// Waits, but not for ever, until all others leave too.
  ~Control();

  [[nodiscard]] std::uint32_t rank() const noexcept { return rank_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(peers_.size()); }
  [[nodiscard]] std::vector<std::string> all_gather(std::string_view mine, Deadline deadline);
  void doing(std::string_view what) noexcept;
  /// "rank 2 (moving weights)".
  [[nodiscard]] std::string describe(std::uint32_t rank);
  /// What on_loss was told, once it was.
  [[nodiscard]] std::optional<std::string> loss();
  /// The time is over for these ranks: throws that, and has it ready for the others, who would otherwise
  /// blame this one.
  [[noreturn]] void fail_late(const std::string& names);
  /// Another connection to a rank broke. That it is gone is probably known here in a moment, and why.
  void suspect(std::uint32_t rank);
  /// Tells the others that this process ends, and why. Waits a moment for the words to leave.
  void tell_ending() noexcept;

 private:
  enum class Kind : std::uint32_t { doing = 1, gather = 2, ending = 3, goodbye = 4, signalled = 5 };
  struct Head {
    Kind kind = Kind::doing;
    std::uint32_t unused = 0;
    std::uint64_t bytes = 0;
  };
  using Message = std::shared_ptr<const std::string>;
  struct Peer {
    UniqueFd socket;  ///< none: the connection has ended
    std::deque<Message> out;
    std::size_t sent = 0;    ///< of the first of them
    bool tell_doing = true;  ///< once nothing else waits
    Head head;
    std::size_t head_got = 0;
    std::string body;
    std::size_t body_got = 0;
    std::deque<std::string> gathered;
    std::string doing = "starting";
    bool left = false;       ///< said goodbye
    bool signalled = false;  ///< said that its launcher ends it
  };
  /// Why this rank is about to end: now, or at that time if nothing better comes up.
  struct Verdict {
    std::string sentence;
    Clock::time_point at;
    bool weak = false;  ///< a launcher's signal: it knows why, and whatever else comes up is nearer to that
  };

  static Message message(Kind kind, std::string_view body);
  /// Whether the head that this peer sent can be one's.
  static bool makes_sense(const Peer& peer) noexcept;
  [[nodiscard]] bool is_self(const Peer& peer) const noexcept { return &peer == &peers_[rank_]; }
  [[nodiscard]] std::string gone(std::uint32_t rank) const;
  /// To the gather that this rank is at; and who did not.
  [[nodiscard]] bool all_gave() const;
  [[nodiscard]] std::string missing() const;

  // Of the thread; all but run() with the lock held.
  void run();
  void poll_once(std::unique_lock<std::mutex>& locked);
  [[nodiscard]] int poll_milliseconds() const;
  void flush_all();
  void flush(std::uint32_t rank);
  void read(std::uint32_t rank);
  [[nodiscard]] bool read_piece(Peer& peer, std::uint32_t rank);
  void take(std::uint32_t rank);
  void end_connection(std::uint32_t rank);
  void conclude(std::string sentence, std::chrono::milliseconds grace, bool weak = false);
  void carry_out(std::unique_lock<std::mutex>& locked);
  [[nodiscard]] bool all_sent() const;
  [[nodiscard]] bool finished() const;
  void send_to_all(const Message& message);
  /// Until all is sent, or a moment later.
  void flush_for_a_moment(std::unique_lock<std::mutex>& locked);

  const std::uint32_t rank_;
  const OnLoss on_loss_;
  LauncherSignal signal_;
  Wakeup wakeup_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Peer> peers_;
  std::array<char, 120> doing_{};
  std::size_t doing_size_ = 0;
  std::optional<Verdict> verdict_;
  std::optional<std::string> loss_;
  std::string because_;  ///< of this rank's end, if not its own fault
  bool signalled_ = false;
  std::optional<Clock::time_point> leave_by_;
  std::thread thread_;
};

}  // namespace refit::transport::tcp
