// Ranks as threads: one lock, one condition, and copies by the receiver.
#include <fmt/format.h>

#include <array>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "refit/base/error.hpp"
#include "refit/transport/group.hpp"
#include "transport/rank_words.hpp"

namespace refit::transport {
namespace {

/// What all ranks share.
struct Shared {
  /// A part that a sender has put out: its own copy, because a rank that fails frees its memory at once.
  struct Letter {
    std::vector<std::byte> bytes;
    bool taken = false;
  };
  struct Rank {
    std::uint64_t gathers = 0;  ///< that it has entered
    std::string_view doing = "starting";
    bool gone = false;
    /// The rank whose end made this one end, which is the one to name.
    std::optional<std::uint32_t> because;
  };
  struct Gather {
    std::vector<std::string> said;
    std::size_t came = 0, left = 0;
  };

  explicit Shared(std::uint32_t size) : ranks(size) {}

  /// Rank `self` waits until ready(); blamed(rank) says whether it is that rank's fault that it has not come.
  template <typename Ready, typename Blamed>
  void wait(std::unique_lock<std::mutex>& locked, std::uint32_t self, Deadline deadline, const Ready& ready,
            const Blamed& blamed) {
    while (!ready()) {
      std::string names;
      for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
        if (!blamed(rank)) continue;
        if (ranks[rank].gone) {
          const std::uint32_t first = ranks[rank].because.value_or(rank);
          ranks[self].because = first;
          fail_runtime(rank_is_gone(first, ranks[first].doing));
        }
        names += (names.empty() ? "" : ", ") + rank_that_does(rank, ranks[rank].doing);
      }
      if (deadline.passed()) fail_runtime(fmt::format("waited too long for {}", names));
      changed.wait_for(locked, kLookAgain);
    }
  }

  static constexpr std::chrono::milliseconds kLookAgain{50};
  std::mutex lock;
  std::condition_variable changed;
  std::vector<Rank> ranks;
  std::map<std::uint64_t, Gather> gathers;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::deque<std::shared_ptr<Letter>>>
      letters;  ///< (from, to)
};

class ThreadGroup : public Group {
 public:
  ThreadGroup(std::shared_ptr<Shared> shared, std::uint32_t rank) : shared_(std::move(shared)), rank_(rank) {}
  ~ThreadGroup() override {
    const std::lock_guard locked(shared_->lock);
    shared_->ranks[rank_].gone = true;
    shared_->changed.notify_all();
  }

  [[nodiscard]] std::uint32_t rank() const noexcept override { return rank_; }
  [[nodiscard]] std::uint32_t size() const noexcept override {
    return static_cast<std::uint32_t>(shared_->ranks.size());
  }

  [[nodiscard]] std::vector<std::string> all_gather(std::string_view mine, Deadline deadline) override {
    Shared& all = *shared_;
    std::unique_lock locked(all.lock);
    const std::uint64_t number = all.ranks[rank_].gathers++;
    Shared::Gather& gather = all.gathers[number];
    gather.said.resize(size());
    gather.said[rank_] = mine;
    ++gather.came;
    all.changed.notify_all();
    all.wait(
        locked, rank_, deadline, [&] { return gather.came == size(); },
        [&](std::uint32_t rank) { return all.ranks[rank].gathers <= number; });
    std::vector<std::string> said = gather.said;
    if (++gather.left == size()) all.gathers.erase(number);
    return said;
  }

  void doing(std::string_view what) noexcept override {
    const std::lock_guard locked(shared_->lock);
    shared_->ranks[rank_].doing = what;
  }

 private:
  std::shared_ptr<Shared> shared_;
  std::uint32_t rank_;
};

class ThreadExchange : public Exchange {
 public:
  ThreadExchange(std::shared_ptr<Shared> shared, std::uint32_t rank)
      : shared_(std::move(shared)), rank_(rank) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "threads"; }

  void start(unsigned slot, std::span<const Part> sends, std::span<const Part> receives) override {
    Round& round = rounds_.at(slot);
    round.receives.assign(receives.begin(), receives.end());
    const std::lock_guard locked(shared_->lock);
    for (const Part& part : sends) {
      auto letter =
          std::make_shared<Shared::Letter>(Shared::Letter{.bytes = {part.bytes.begin(), part.bytes.end()}});
      shared_->letters[{rank_, part.peer}].push_back(letter);
      round.sent.emplace_back(part.peer, std::move(letter));
    }
    shared_->changed.notify_all();
  }

  void wait(unsigned slot, Deadline deadline) override {
    Round& round = rounds_.at(slot);
    for (const Part& part : std::exchange(round.receives, {})) receive(part, deadline);
    std::unique_lock locked(shared_->lock);
    for (const auto& [peer, letter] : std::exchange(round.sent, {})) {
      shared_->wait(
          locked, rank_, deadline, [&letter = letter] { return letter->taken; },
          [peer = peer](std::uint32_t rank) { return rank == peer; });
    }
  }

  void abandon(Buffers) noexcept override {}  // letters are copies, and what comes is copied by wait()

 private:
  struct Round {
    std::vector<Part> receives;
    std::vector<std::pair<std::uint32_t, std::shared_ptr<Shared::Letter>>> sent;
  };

  void receive(const Part& part, Deadline deadline) {
    std::unique_lock locked(shared_->lock);
    auto& letters = shared_->letters[{part.peer, rank_}];
    shared_->wait(
        locked, rank_, deadline, [&] { return !letters.empty(); },
        [&](std::uint32_t rank) { return rank == part.peer; });
    const std::shared_ptr<Shared::Letter> letter = letters.front();
    letters.pop_front();
    if (letter->bytes.size() != part.bytes.size()) {
      fail_runtime(fmt::format("rank {} sent {} bytes to rank {}, which expected {}", part.peer,
                               letter->bytes.size(), rank_, part.bytes.size()));
    }
    locked.unlock();
    if (!part.bytes.empty()) std::memcpy(part.bytes.data(), letter->bytes.data(), part.bytes.size());
    locked.lock();
    letter->taken = true;
    shared_->changed.notify_all();
  }

  std::shared_ptr<Shared> shared_;
  std::uint32_t rank_;
  std::array<Round, kSlots> rounds_;
};

}  // namespace

std::vector<ThreadRank> make_thread_ranks(std::uint32_t size) {
  const auto shared = std::make_shared<Shared>(size);
  std::vector<ThreadRank> ranks;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    ranks.push_back(
        {std::make_unique<ThreadGroup>(shared, rank), std::make_unique<ThreadExchange>(shared, rank)});
  }
  return ranks;
}

void run_thread_ranks(std::uint32_t size, const std::function<void(ThreadRank& rank)>& body) {
  std::vector<ThreadRank> ranks = make_thread_ranks(size);
  std::mutex lock;
  std::exception_ptr first;  // in time: what comes later is often about this one
  std::vector<std::thread> threads;
  for (ThreadRank& rank : ranks) {
    threads.emplace_back([&] {
      try {
        body(rank);
      } catch (...) {
        const std::lock_guard locked(lock);
        if (!first) first = std::current_exception();
      }
      rank = {};
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace refit::transport
