// One communicator for what ranks say, one for what they move.
#include "refit/mpi/session.hpp"

#include <fmt/format.h>
#include <mpi.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "mpi/board.hpp"
#include "mpi/waiting.hpp"
#include "refit/base/error.hpp"
#include "transport/rank_words.hpp"
#include "transport/signals.hpp"

namespace refit::mpi {
namespace {

/// A message of MPI counts in int; parts above this go in several.
constexpr std::size_t kMostBytes = std::size_t{1} << 30;
constexpr std::chrono::seconds kLongestLeave{60};

int rank_in(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

int size_of_group(MPI_Comm comm) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  return size;
}

class MpiGroup : public transport::Group {
 public:
  MpiGroup(MPI_Comm comm, Board& board) : comm_(comm), board_(board) {}

  [[nodiscard]] std::uint32_t rank() const noexcept override {
    return static_cast<std::uint32_t>(rank_in(comm_));
  }
  [[nodiscard]] std::uint32_t size() const noexcept override {
    return static_cast<std::uint32_t>(size_of_group(comm_));
  }

  [[nodiscard]] std::vector<std::string> all_gather(std::string_view mine, Deadline deadline) override {
    const auto gather = std::make_shared<Gather>(mine, static_cast<std::size_t>(size_of_group(comm_)));
    std::vector<int>&counts = gather->counts, &offsets = gather->offsets;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallgather(&gather->own, 1, MPI_INT, counts.data(), 1, MPI_INT, comm_, &request);
    wait(request, deadline, gather);
    std::size_t total = 0;
    for (std::size_t r = 0; r < counts.size(); ++r) {
      offsets[r] = static_cast<int>(total);
      total += static_cast<std::size_t>(counts[r]);
    }
    if (total > kMostBytes) fail_runtime(fmt::format("ranks say {} bytes to each other at once", total));
    gather->all.resize(total);
    MPI_Iallgatherv(gather->mine.data(), gather->own, MPI_BYTE, gather->all.data(), counts.data(),
                    offsets.data(), MPI_BYTE, comm_, &request);
    wait(request, deadline, gather);
    std::vector<std::string> said;
    for (std::size_t r = 0; r < counts.size(); ++r) {
      said.push_back(
          gather->all.substr(static_cast<std::size_t>(offsets[r]), static_cast<std::size_t>(counts[r])));
    }
    return said;
  }

  void doing(std::string_view what) noexcept override { board_.write(what); }

 private:
  /// What MPI reads and writes until a request is complete.
  struct Gather {
    Gather(std::string_view words, std::size_t ranks)
        : mine(words), own(static_cast<int>(words.size())), counts(ranks), offsets(ranks) {}
    std::string mine, all;
    int own;
    std::vector<int> counts, offsets;
  };

  void wait(MPI_Request& request, Deadline deadline, const std::shared_ptr<Gather>& gather) {
    try {
      wait_all({&request, 1}, deadline, Manner::patient, [&] { return everybody(); });
    } catch (const Error&) {
      (void)new std::shared_ptr<Gather>(gather);  // the request stays, and so has to stay what it uses
      throw;
    }
  }
  /// Who has not come is not known; what each does is.
  [[nodiscard]] std::string everybody() const {
    std::string names;
    for (int rank = 0; rank < size_of_group(comm_); ++rank) {
      if (rank != rank_in(comm_)) names += (names.empty() ? "" : ", ") + board_.describe(rank);
    }
    return "one of " + names;
  }

  MPI_Comm comm_;
  Board& board_;
};

class MpiExchange : public transport::Exchange {
 public:
  MpiExchange(MPI_Comm comm, Board& board) : comm_(comm), board_(board) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "mpi"; }

  void start(unsigned slot, std::span<const transport::Part> sends,
             std::span<const transport::Part> receives) override {
    Round& round = rounds_.at(slot);
    for (const transport::Part& part : receives) {
      in_pieces(part, round, [&](void* at, int bytes, int peer, MPI_Request* request) {
        MPI_Irecv(at, bytes, MPI_BYTE, peer, 0, comm_, request);
      });
    }
    for (const transport::Part& part : sends) {
      in_pieces(part, round, [&](void* at, int bytes, int peer, MPI_Request* request) {
        MPI_Isend(at, bytes, MPI_BYTE, peer, 0, comm_, request);
      });
    }
  }

  void wait(unsigned slot, Deadline deadline) override {
    Round& round = rounds_.at(slot);
    wait_all(round.requests, deadline, Manner::eager, [&] { return unfinished(round); });
    round = {};
  }

 private:
  struct Round {
    std::vector<MPI_Request> requests;
    std::vector<int> peers;  ///< of each
  };

  /// Messages between two ranks arrive in the order in which they were sent, so pieces need no numbers.
  template <typename Begin>
  static void in_pieces(const transport::Part& part, Round& round, const Begin& begin) {
    for (std::size_t done = 0; done < part.bytes.size();) {
      const std::size_t count = std::min(kMostBytes, part.bytes.size() - done);
      round.requests.push_back(MPI_REQUEST_NULL);
      round.peers.push_back(static_cast<int>(part.peer));
      begin(part.bytes.data() + done, static_cast<int>(count), round.peers.back(), &round.requests.back());
      done += count;
    }
  }

  [[nodiscard]] std::string unfinished(Round& round) const {
    std::string names;
    for (std::size_t i = 0; i < round.requests.size(); ++i) {
      if (round.requests[i] == MPI_REQUEST_NULL) continue;
      const std::string name = board_.describe(round.peers[i]);
      if (names.find(name) == std::string::npos) names += (names.empty() ? "" : ", ") + name;
    }
    return names;
  }

  MPI_Comm comm_;
  Board& board_;
  std::array<Round, kSlots> rounds_;
};

}  // namespace

bool launched() noexcept {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

/// What MPI does of its own waits without a deadline. When this one has passed, the sentence ends the
/// process.
class Hourglass {
 public:
  Hourglass(Deadline deadline, const transport::OnLoss& on_loss, std::string sentence)
      : thread_([this, deadline, &on_loss, sentence = std::move(sentence)] {
          std::unique_lock locked(mutex_);
          while (!over_ && !deadline.passed()) {
            changed_.wait_for(locked, std::chrono::milliseconds(deadline.poll_milliseconds()));
          }
          if (!over_) on_loss(sentence);
        }) {}
  Hourglass(const Hourglass&) = delete;
  Hourglass& operator=(const Hourglass&) = delete;
  ~Hourglass() {
    {
      const std::lock_guard locked(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

int launched_rank() noexcept {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"}) {
    if (const char* const rank = std::getenv(name)) return std::atoi(rank);
  }
  return -1;
}

struct Session::State {
  explicit State(transport::OnLoss loss) : on_loss(std::move(loss)) {}

  /// Tells of the first rank that ends, of the launcher's signal, or returns when it is to `leave`.
  void watch() {
    constexpr auto news = static_cast<int>(transport::LauncherSignal::kNews.count());
    std::vector<pollfd> polled = {{leave.fd(), POLLIN, 0}, {signal->fd(), POLLIN, 0}};
    for (const Board::Peer& peer : board->peers()) polled.push_back({peer.process.get(), POLLIN, 0});
    bool signalled = false;
    for (;;) {
      const int ready = ::poll(polled.data(), polled.size(), signalled ? news : -1);
      if (ready < 0 && errno == EINTR) continue;
      if (polled[0].revents != 0) return;
      for (std::size_t i = 2; i < polled.size(); ++i) {
        if (polled[i].revents == 0) continue;
        const int rank = board->peers()[i - 2].rank;
        return on_loss(transport::rank_is_gone(static_cast<std::uint32_t>(rank), board->doing(rank)));
      }
      if (signalled) return on_loss(transport::LauncherSignal::kSentence);
      signalled = true;
      polled[1].fd = -1;
    }
  }

  transport::OnLoss on_loss;
  MPI_Comm said = MPI_COMM_NULL, moved = MPI_COMM_NULL;
  std::unique_ptr<Board> board;
  std::optional<transport::LauncherSignal> signal;
  transport::Wakeup leave;
  std::thread watcher;
};

Session::Session(transport::OnLoss on_loss, Deadline deadline)
    : state_(std::make_unique<State>(std::move(on_loss))) {
  const Hourglass hourglass(deadline, state_->on_loss, "waited too long for all ranks to begin with MPI");
  int provided = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
    fail_runtime("MPI could not begin");
  }
  MPI_Comm_dup(MPI_COMM_WORLD, &state_->said);
  MPI_Comm_dup(MPI_COMM_WORLD, &state_->moved);
  state_->board = std::make_unique<Board>(MPI_COMM_WORLD);
  state_->signal.emplace();
  state_->watcher = std::thread([this] { state_->watch(); });
}

Session::~Session() {
  const Hourglass hourglass(Deadline::after(kLongestLeave), state_->on_loss,
                            "waited too long for all ranks to end");
  // From here on ranks may end.
  MPI_Barrier(state_->said);
  state_->leave.wake();
  state_->watcher.join();
  state_->board.reset();
  MPI_Comm_free(&state_->said);
  MPI_Comm_free(&state_->moved);
  MPI_Finalize();
}

std::unique_ptr<transport::Group> Session::group() {
  return std::make_unique<MpiGroup>(state_->said, *state_->board);
}

std::unique_ptr<transport::Exchange> Session::exchange() {
  return std::make_unique<MpiExchange>(state_->moved, *state_->board);
}

std::uint32_t Session::local_rank() const noexcept {
  return state_->board->host_rank();
}

std::uint32_t Session::ranks_on_this_host() const noexcept {
  return state_->board->host_size();
}

void Session::abort(int exit_code) noexcept {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

}  // namespace refit::mpi
