// Non-blocking NCCL calls, polled until they have been queued, and an event for each slot.
#include "refit/nccl/exchange.hpp"

#include <cuda_runtime.h>
#include <fmt/format.h>
#include <nccl.h>
#include <sched.h>

#include <array>
#include <cstring>
#include <map>

#include "refit/base/error.hpp"

namespace refit::nccl {
namespace {

void check(cudaError_t result, const char* what) {
  if (result != cudaSuccess) fail_runtime(fmt::format("{}: {}", what, cudaGetErrorString(result)));
}

class NcclExchange : public transport::Exchange {
 public:
  NcclExchange(transport::Group& group, int ordinal, Deadline deadline)
      : rank_(static_cast<int>(group.rank())) {
    check(cudaSetDevice(ordinal), "choosing the GPU for NCCL");
    // First in line: a round moves in a few blocks, and kernels that pack the next one would keep all of them
    // waiting.
    int lowest = 0, highest = 0;
    check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "asking for stream priorities");
    check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, highest), "making a stream for NCCL");
    for (cudaEvent_t& event : events_) {
      check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event for NCCL");
    }
    const ncclUniqueId id = meet(group, deadline);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    require(ncclCommInitRankConfig(&comm_, static_cast<int>(group.size()), id, rank_, &config),
            "joining the other ranks");
    queued(deadline, "joining the other ranks");
  }

  ~NcclExchange() override {
    if (comm_ != nullptr) ncclCommAbort(comm_);
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  [[nodiscard]] std::string_view name() const noexcept override { return "nccl"; }

  void start(unsigned slot, std::span<const transport::Part> sends,
             std::span<const transport::Part> receives) override {
    begin_round();
    for (const transport::Part& part : receives) {
      require(ncclRecv(part.bytes.data(), part.bytes.size(), ncclUint8, static_cast<int>(part.peer), comm_,
                       stream_),
              "receiving");
    }
    for (const transport::Part& part : sends) {
      require(ncclSend(part.bytes.data(), part.bytes.size(), ncclUint8, static_cast<int>(part.peer), comm_,
                       stream_),
              "sending");
    }
    end_round(slot);
  }

  void broadcast(unsigned slot, std::span<const transport::Part> sends,
                 std::span<const transport::Part> receives) override {
    // Every rank asks for the same broadcasts in the same order: by the rank that sends.
    std::map<int, std::span<std::byte>> by_root;
    for (const transport::Part& part : receives) by_root[static_cast<int>(part.peer)] = part.bytes;
    if (!sends.empty()) by_root[rank_] = sends.front().bytes;
    begin_round();
    for (const auto& [root, bytes] : by_root) {
      require(ncclBroadcast(bytes.data(), bytes.data(), bytes.size(), ncclUint8, root, comm_, stream_),
              "broadcasting");
    }
    end_round(slot);
  }

  void wait(unsigned slot, Deadline deadline) override {
    for (;;) {
      const cudaError_t result = cudaEventQuery(events_.at(slot));
      if (result == cudaSuccess) return;
      if (result != cudaErrorNotReady) check(result, "moving a round over NCCL");
      ncclResult_t state = ncclSuccess;
      require(ncclCommGetAsyncError(comm_, &state), "asking NCCL how it is");
      require(state, "moving a round");
      if (deadline.passed()) {
        ncclCommAbort(std::exchange(comm_, nullptr));
        fail_runtime("waited too long for a round over NCCL");
      }
      ::sched_yield();
    }
  }

 private:
  /// Connections are made in the first round between two ranks.
  static constexpr std::chrono::seconds kLongestQueueing{60};

  static void require(ncclResult_t result, const char* what) {
    if (result == ncclSuccess || result == ncclInProgress) return;
    fail_runtime(
        fmt::format("NCCL, {}: {} ({})", what, ncclGetErrorString(result), ncclGetLastError(nullptr)));
  }

  /// Rank 0's id, where all have the same NCCL: others would not find together, or hang.
  static ncclUniqueId meet(transport::Group& group, Deadline deadline) {
    struct Said {
      int version = 0;
      ncclUniqueId id{};
    } own;
    require(ncclGetVersion(&own.version), "asking NCCL its version");
    if (group.rank() == 0) require(ncclGetUniqueId(&own.id), "making an id");
    const std::string_view bytes(reinterpret_cast<const char*>(&own), sizeof(own));
    const std::vector<std::string> all = group.all_gather(bytes, deadline);
    Said first;
    std::memcpy(&first, all.front().data(), sizeof(first));
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
      Said other;
      std::memcpy(&other, all[rank].data(), sizeof(other));
      if (other.version == first.version) continue;
      fail_input(fmt::format("ranks disagree: NCCL's version is {} on rank 0 and {} on rank {}",
                             first.version, other.version, rank));
    }
    return first.id;
  }

  static void begin_round() { require(ncclGroupStart(), "beginning a round"); }

  void end_round(unsigned slot) {
    require(ncclGroupEnd(), "queueing a round");
    queued(Deadline::after(kLongestQueueing), "queueing a round");
    check(cudaEventRecord(events_.at(slot), stream_), "marking a round's end");
  }

  void queued(Deadline deadline, const char* what) {
    for (;;) {
      ncclResult_t state = ncclSuccess;
      require(ncclCommGetAsyncError(comm_, &state), what);
      require(state, what);
      if (state != ncclInProgress) return;
      if (deadline.passed()) {
        ncclCommAbort(std::exchange(comm_, nullptr));
        fail_runtime(fmt::format("NCCL, {}: waited too long", what));
      }
      ::sched_yield();
    }
  }

  int rank_ = 0;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  std::array<cudaEvent_t, kSlots> events_{};
};

}  // namespace

std::unique_ptr<transport::Exchange> make_exchange(transport::Group& group, int ordinal, Deadline deadline) {
  return std::make_unique<NcclExchange>(group, ordinal, deadline);
}

}  // namespace refit::nccl
