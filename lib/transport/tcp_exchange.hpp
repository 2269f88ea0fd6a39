// What ranks move: one thread between the caller's buffers and one connection to each other rank.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "refit/transport/group.hpp"
#include "transport/signals.hpp"
#include "transport/tcp_control.hpp"

namespace refit::transport::tcp {

class TcpExchange : public Exchange {
 public:
  /// `sockets` by rank stay the caller's.
  TcpExchange(Control& control, const std::vector<UniqueFd>& sockets);
  ~TcpExchange() override;

  [[nodiscard]] std::string_view name() const noexcept override { return "tcp"; }
  void start(unsigned slot, std::span<const Part> sends, std::span<const Part> receives) override;
  /// When it throws, nothing moves any more, and no buffer is in use.
  void wait(unsigned slot, Deadline deadline) override;
  void abandon(Buffers) noexcept override { stop(); }

 private:
  /// In front of each part, so that two ranks that disagree about a size notice.
  struct Head {
    std::uint64_t bytes = 0;
  };
  struct Job {
    std::span<std::byte> bytes;
    unsigned slot = 0;
  };
  /// One direction of a connection. The jobs are under the lock, the rest is the thread's.
  struct Stream {
    std::deque<Job> jobs;
    Head head;
    std::size_t done = 0;  ///< of head and bytes together
    bool broken = false;
  };
  enum class Direction { out, in };

  void run();
  void move(std::uint32_t peer, Direction direction);
  /// One call to the kernel; the count that it moved, else errno's negative.
  [[nodiscard]] static ssize_t move_some(int socket, Direction direction, Stream& stream, const Job& job);
  /// False when what arrives is not what the job expects.
  [[nodiscard]] bool check_head(std::uint32_t peer, const Stream& stream, const Job& job);
  void finish(std::uint32_t peer, Stream& stream, unsigned slot);
  void stop();
  [[nodiscard]] std::string unfinished(unsigned slot) const;

  Control& control_;
  std::vector<int> sockets_;
  Wakeup wakeup_;
  std::mutex mutex_;
  std::condition_variable finished_;
  std::vector<Stream> out_, in_;
  std::array<std::map<std::uint32_t, unsigned>, kSlots> left_;  ///< parts under way, by peer
  std::string failure_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace refit::transport::tcp
