// A fixed set of worker threads and a parallel loop over a range.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace refit {

/// Owns `threads - 1` workers; the calling thread is the last one. With 1 thread (or 0) everything runs
/// inline. One loop at a time per pool: for_range is called from one thread only.
class ThreadPool {
 public:
  explicit ThreadPool(unsigned threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] unsigned threads() const noexcept;

  /// Calls body(begin, end) over disjoint pieces of [0, count), each at most `grain` long (grain >= 1), and
  /// returns when all are done. The first exception thrown by a body is rethrown here, after all have
  /// stopped.
  void for_range(std::size_t count, std::size_t grain,
                 const std::function<void(std::size_t begin, std::size_t end)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace refit
