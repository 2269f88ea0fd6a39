// memcpy with one large piece a thread: the C library then picks its fastest way for arrays far above the
// cache.
#include "device/host_copy.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "refit/time/deadline.hpp"

namespace refit::device {
namespace {

#if REFIT_SANITIZED  // whose seconds say nothing
constexpr std::uint64_t kLeastBytes = 8u << 20;
#else
constexpr std::uint64_t kLeastBytes = 512u << 20;
#endif
constexpr int kRepetitions = 3;

double copy_once(std::span<const std::byte> from, std::span<std::byte> to, ThreadPool& pool) {
  const Clock::time_point start = Clock::now();
  const std::size_t piece = (from.size() + pool.threads() - 1) / pool.threads();
  pool.for_range(from.size(), piece, [&](std::size_t begin, std::size_t end) {
    std::memcpy(to.data() + begin, from.data() + begin, end - begin);
  });
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

CopySamples measure_host_copy(std::span<const std::byte> from, std::span<std::byte> to, ThreadPool& pool) {
  std::vector<std::byte> own_from, own_to;
  if (std::min(from.size(), to.size()) < kLeastBytes) {
    own_from.assign(kLeastBytes, std::byte{1});
    own_to.assign(kLeastBytes, std::byte{0});
    from = own_from;
    to = own_to;
  }
  const std::size_t bytes = std::min(from.size(), to.size());
  // The first pass maps the pages of both arrays into this process and is not counted.
  (void)copy_once(from.first(bytes), to.first(bytes), pool);
  CopySamples copy;
  copy.array_bytes = bytes;
  for (int i = 0; i < kRepetitions; ++i) {
    copy.within.push_back(2.0 * static_cast<double>(bytes) /
                          copy_once(from.first(bytes), to.first(bytes), pool));
  }
  return copy;
}

}  // namespace refit::device
