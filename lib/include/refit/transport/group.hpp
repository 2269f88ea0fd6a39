// Ranks that started together: what everybody says, and bytes from one to another. Implementations: threads
// of one process (here), MPI (refit/mpi).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "refit/time/deadline.hpp"

namespace refit::transport {

/// Bytes that go to a peer, or come from it.
struct Part {
  std::uint32_t peer = 0;
  std::span<std::byte> bytes;
};

/// One rank's view of all. Calls are collective: every rank makes the same ones in the same order. Each
/// throws Error(runtime) when the deadline passes or another rank is gone, naming the ranks that it waited
/// for and what they said last that they were doing.
class Group {
 public:
  virtual ~Group() = default;
  [[nodiscard]] virtual std::uint32_t rank() const noexcept = 0;
  [[nodiscard]] virtual std::uint32_t size() const noexcept = 0;
  /// What every rank gave, by rank.
  [[nodiscard]] virtual std::vector<std::string> all_gather(std::string_view mine, Deadline deadline) = 0;
  void barrier(Deadline deadline) { (void)all_gather({}, deadline); }
  /// What this rank does now, for the others' messages; a string literal.
  virtual void doing(std::string_view what) noexcept = 0;
};

/// The data path of one rank, in host or device memory. Rounds go through slots that take turns, so that one
/// is under way while the next is packed.
class Exchange {
 public:
  static constexpr unsigned kSlots = 2;
  virtual ~Exchange() = default;
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;  ///< "threads", "mpi", ...
  /// Begins to move one round: every rank with its parts of the same round, at most one to each peer and none
  /// to itself. Both ends of a part know its size. The bytes belong to the exchange until wait() has returned
  /// for the slot.
  virtual void start(unsigned slot, std::span<const Part> sends, std::span<const Part> receives) = 0;
  /// The same, where every rank's sends are the same bytes to all others: what frameworks do that broadcast
  /// buckets.
  virtual void broadcast(unsigned slot, std::span<const Part> sends, std::span<const Part> receives) {
    start(slot, sends, receives);
  }
  /// When it returns, what was to be received is there and what was sent may be overwritten.
  virtual void wait(unsigned slot, Deadline deadline) = 0;
  /// The memory of all slots, to send from and to receive into.
  using Buffers = std::array<std::shared_ptr<const void>, std::size_t{2} * kSlots>;
  /// This rank leaves while rounds may be under way; none can begin any more. The memory that their parts lie
  /// in goes when nobody uses it any more: with the process, where that cannot be known earlier.
  virtual void abandon(Buffers buffers) noexcept { (void)new (std::nothrow) Buffers(std::move(buffers)); }
};

/// Both for each of `size` ranks that are threads of this process. The last of them to go frees what they
/// share.
struct ThreadRank {
  std::unique_ptr<Group> group;
  std::unique_ptr<Exchange> exchange;
};
[[nodiscard]] std::vector<ThreadRank> make_thread_ranks(std::uint32_t size);

/// Runs body(rank) on a thread for each rank. When one throws, the others' waits end with an error that names
/// it; the first error in time is thrown when all have ended.
void run_thread_ranks(std::uint32_t size, const std::function<void(ThreadRank& rank)>& body);

}  // namespace refit::transport
