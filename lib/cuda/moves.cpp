// Pinned memory is page-locked before the time starts; pageable memory is mapped anew for every chunk.
#include "cuda/moves.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cuda/check.hpp"
#include "refit/base/error.hpp"

namespace refit::cuda {
namespace {

constexpr std::uint64_t kWindow = 256u << 20;

/// Fresh pages, which the kernel provides and clears when they are first touched.
class Pages {
 public:
  explicit Pages(std::uint64_t bytes) : bytes_(bytes) {
    data_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) {
      fail_runtime(fmt::format("mapping {} bytes of host memory failed: {}", bytes_, std::strerror(errno)));
    }
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() { ::munmap(data_, bytes_); }
  [[nodiscard]] std::byte* data() const noexcept { return static_cast<std::byte*>(data_); }

 private:
  std::uint64_t bytes_;
  void* data_;
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

double Moves::to_host(std::uint64_t bytes, bool is_pinned) {
  return move(bytes, is_pinned, cudaMemcpyDeviceToHost);
}

double Moves::from_host(std::uint64_t bytes, bool is_pinned) {
  return move(bytes, is_pinned, cudaMemcpyHostToDevice);
}

double Moves::move(std::uint64_t bytes, bool is_pinned, cudaMemcpyKind direction) {
  if (bytes == 0) return 0;
  if (device_.size() == 0) {
    device_ = DeviceBuffer(session_, kWindow, "the window for moves between GPU and host");
    check(cudaMemsetAsync(device_.data(), 1, kWindow, session_->stream()), "filling the window for moves");
  }
  return is_pinned ? pinned(bytes, direction) : pageable(bytes, direction);
}

void Moves::copy(std::byte* host, std::uint64_t bytes, cudaMemcpyKind direction) {
  const bool to_host = direction == cudaMemcpyDeviceToHost;
  std::byte* const to = to_host ? host : device_.data();
  const std::byte* const from = to_host ? device_.data() : host;
  session_->begin("moving bytes between GPU and host");
  check(cudaMemcpyAsync(to, from, bytes, direction, session_->stream()), "moving bytes between GPU and host");
}

double Moves::pinned(std::uint64_t bytes, cudaMemcpyKind direction) {
  if (pinned_.size() == 0) {
    pinned_ = PinnedBuffer(kWindow, "the window for moves between GPU and host");
    std::memset(pinned_.data(), 1, kWindow);
  }
  session_->wait();
  const Clock::time_point start = Clock::now();
  for (std::uint64_t done = 0; done < bytes; done += kWindow) {
    copy(pinned_.data(), std::min(kWindow, bytes - done), direction);
  }
  session_->wait();
  return seconds_since(start);
}

double Moves::pageable(std::uint64_t bytes, cudaMemcpyKind direction) {
  session_->wait();
  double seconds = 0;
  for (std::uint64_t done = 0; done < bytes; done += kWindow) {
    const std::uint64_t chunk = std::min(kWindow, bytes - done);
    Clock::time_point start = Clock::now();
    {
      const Pages pages(chunk);
      if (direction == cudaMemcpyHostToDevice) {
        // What comes back from the host lies there already.
        std::memset(pages.data(), 1, chunk);
        start = Clock::now();
      }
      copy(pages.data(), chunk, direction);
      session_->wait();
    }
    seconds += seconds_since(start);
  }
  return seconds;
}

}  // namespace refit::cuda
