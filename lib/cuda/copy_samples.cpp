// cudaMemcpyAsync between events.
#include "cuda/copy_samples.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "cuda/buffers.hpp"
#include "cuda/check.hpp"

namespace refit::cuda {
namespace {

constexpr std::uint64_t kLeastBytes = 1ull << 30;
constexpr std::uint64_t kOwnBytes = 4ull << 30;
constexpr std::uint64_t kHostBytes = 256u << 20;
constexpr int kRepetitions = 5;
constexpr int kByte = 0x5A;

/// Bytes a second of copies of `bytes`, which count `counted` times; one more copy goes before and is not
/// counted.
std::vector<double> repeat(Session& session, std::byte* to, const std::byte* from, std::uint64_t bytes,
                           cudaMemcpyKind direction, double counted) {
  std::vector<double> samples;
  Event begin(Event::Timing::on), end(Event::Timing::on);
  for (int i = 0; i <= kRepetitions; ++i) {
    session.begin("measuring copies");
    begin.record(session.stream());
    check(cudaMemcpyAsync(to, from, bytes, direction, session.stream()), "measuring copies");
    end.record(session.stream());
    session.wait();
    if (i != 0) samples.push_back(counted * static_cast<double>(bytes) / Event::seconds(begin, end));
  }
  return samples;
}

/// Own arrays have this size, as far as memory allows; 0 where the given ones are as good.
std::uint64_t own_bytes(std::uint64_t given) {
  if (given >= kLeastBytes) return 0;
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "asking how much GPU memory is free");
  const std::uint64_t bytes = std::min<std::uint64_t>(kOwnBytes, free / 4);
  return bytes > given ? bytes : 0;
}

/// The next GPU whose memory this one can write, and this one again when it goes. Others may be using it:
/// what it refuses only means that it is not measured.
class Peer {
 public:
  explicit Peer(int ordinal) : own_(ordinal) {
    int count = 0;
    if (failed(cudaGetDeviceCount(&count))) return;
    for (int step = 1; step < count && ordinal_ == kNone; ++step) {
      int reachable = 0;
      const int other = (ordinal + step) % count;
      if (!failed(cudaDeviceCanAccessPeer(&reachable, ordinal, other)) && reachable != 0) ordinal_ = other;
    }
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer() {
    if (enabled_) (void)failed(cudaDeviceDisablePeerAccess(ordinal_));
    if (data_ == nullptr) return;
    (void)failed(cudaSetDevice(ordinal_));
    (void)failed(cudaFree(data_));
    (void)failed(cudaSetDevice(own_));
  }

  /// Null without such a GPU, and where it does not let this one in.
  [[nodiscard]] std::byte* allocate(std::uint64_t bytes) {
    if (ordinal_ == kNone || failed(cudaSetDevice(ordinal_))) return nullptr;
    const bool full = failed(cudaMalloc(&data_, bytes));
    check(cudaSetDevice(own_), "coming back from the peer GPU");
    if (full) return nullptr;
    enabled_ = !failed(cudaDeviceEnablePeerAccess(ordinal_, 0));
    return enabled_ ? static_cast<std::byte*>(data_) : nullptr;
  }

 private:
  /// Takes the error away, so that no later call finds it.
  static bool failed(cudaError_t answer) noexcept {
    if (answer != cudaSuccess) (void)cudaGetLastError();
    return answer != cudaSuccess;
  }
  static constexpr int kNone = -1;
  int own_;
  int ordinal_ = kNone;
  void* data_ = nullptr;
  bool enabled_ = false;
};

std::vector<double> to_peer(Session& session, const std::byte* from, std::uint64_t bytes) {
  Peer peer(session.gpu().ordinal);
  std::byte* const to = peer.allocate(bytes);
  if (to == nullptr) return {};
  return repeat(session, to, from, bytes, cudaMemcpyDefault, 1);
}

}  // namespace

device::CopySamples measure_copy(const SessionPtr& session, std::span<const std::byte> from,
                                 std::span<std::byte> to) {
  session->wait();
  DeviceBuffer own_from, own_to;
  if (const std::uint64_t bytes = own_bytes(std::min(from.size(), to.size())); bytes != 0) {
    own_from = DeviceBuffer(session, bytes, "arrays to measure copies with");
    own_to = DeviceBuffer(session, bytes, "arrays to measure copies with");
    check(cudaMemsetAsync(own_from.data(), kByte, bytes, session->stream()), "filling an array to copy");
    from = {own_from.data(), bytes};
    to = {own_to.data(), bytes};
  }
  device::CopySamples samples;
  samples.array_bytes = std::min(from.size(), to.size());
  samples.within = repeat(*session, to.data(), from.data(), samples.array_bytes, cudaMemcpyDeviceToDevice, 2);

  const std::uint64_t bytes = std::min(kHostBytes, samples.array_bytes);
  const PinnedBuffer host(bytes, "host memory to measure copies with");
  std::memset(host.data(), kByte, bytes);
  samples.to_host = repeat(*session, host.data(), from.data(), bytes, cudaMemcpyDeviceToHost, 1);
  samples.from_host = repeat(*session, to.data(), host.data(), bytes, cudaMemcpyHostToDevice, 1);
  samples.peer = to_peer(*session, from.data(), std::min(kLeastBytes, samples.array_bytes));
  return samples;
}

}  // namespace refit::cuda
