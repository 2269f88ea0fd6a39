// Worker threads that share one loop at a time through an atomic chunk counter.
#include "refit/base/thread_pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "refit/base/error.hpp"

namespace refit {

struct ThreadPool::State {
  using Body = std::function<void(std::size_t, std::size_t)>;

  std::vector<std::thread> workers;
  std::mutex mutex;
  std::condition_variable work_or_stop;
  std::condition_variable all_left;

  // Under the mutex. A worker may enter a loop only while it is open, so that the caller, having found no
  // chunk left, waits for those inside and never for one that is still waking up.
  bool stop = false;
  bool open = false;
  std::uint64_t loop = 0;
  unsigned inside = 0;
  std::exception_ptr failure;

  // Written before the loop opens, read by those inside.
  const Body* body = nullptr;
  std::size_t count = 0, grain = 1, chunks = 0;
  std::atomic<std::size_t> next_chunk = 0;

  ~State() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    work_or_stop.notify_all();
    for (std::thread& worker : workers) worker.join();
  }

  void run_chunks() noexcept {
    try {
      for (std::size_t chunk; (chunk = next_chunk.fetch_add(1, std::memory_order_relaxed)) < chunks;) {
        const std::size_t begin = chunk * grain;
        (*body)(begin, begin + std::min(grain, count - begin));
      }
    } catch (...) {
      next_chunk.store(chunks, std::memory_order_relaxed);
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  }

  void work() {
    std::uint64_t last_loop = 0;
    std::unique_lock lock(mutex);
    for (;;) {
      work_or_stop.wait(lock, [&] { return stop || (open && loop != last_loop); });
      if (stop) return;
      last_loop = loop;
      ++inside;
      lock.unlock();
      run_chunks();
      lock.lock();
      if (--inside == 0) all_left.notify_one();
    }
  }
};

ThreadPool::ThreadPool(unsigned threads) : state_(std::make_unique<State>()) {
  try {
    for (unsigned i = 1; i < threads; ++i) state_->workers.emplace_back(&State::work, state_.get());
  } catch (const std::system_error& error) {
    fail_runtime(fmt::format("starting worker {} of {} threads failed: {}", state_->workers.size() + 1,
                             threads, error.what()));
  }
}

ThreadPool::~ThreadPool() = default;

unsigned ThreadPool::threads() const noexcept {
  return static_cast<unsigned>(state_->workers.size()) + 1;
}

void ThreadPool::for_range(std::size_t count, std::size_t grain,
                           const std::function<void(std::size_t begin, std::size_t end)>& body) {
  if (grain == 0) fail_input(fmt::format("a parallel loop over {} items was given a grain of 0", count));
  if (count == 0) return;
  State& state = *state_;
  const std::size_t chunks = (count - 1) / grain + 1;
  {
    const std::lock_guard lock(state.mutex);
    state.body = &body;
    state.count = count;
    state.grain = grain;
    state.chunks = chunks;
    state.next_chunk.store(0, std::memory_order_relaxed);
    state.failure = nullptr;
    state.open = true;
    ++state.loop;
  }
  const std::size_t helpers = std::min<std::size_t>(state.workers.size(), chunks - 1);
  for (std::size_t i = 0; i < helpers; ++i) state.work_or_stop.notify_one();
  state.run_chunks();

  std::exception_ptr failure;
  {
    std::unique_lock lock(state.mutex);
    state.open = false;
    state.all_left.wait(lock, [&] { return state.inside == 0; });
    failure = std::exchange(state.failure, nullptr);
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace refit
