// Non-blocking NCCL calls, polled until they have been queued, and an event for each slot.
#include "refit/nccl/exchange.hpp"

#include <cuda_runtime.h>
#include <fmt/format.h>
#include <nccl.h>
#include <sched.h>

#include <array>
#include <cstring>

#include "refit/base/error.hpp"

namespace refit::nccl {
namespace {

void check(cudaError_t result, const char* what) {
  if (result != cudaSuccess) fail_runtime(fmt::format("{}: {}", what, cudaGetErrorString(result)));
}

class NcclExchange : public transport::Exchange {
 public:
  NcclExchange(transport::Group& group, int ordinal, Deadline deadline) {
    check(cudaSetDevice(ordinal), "choosing the GPU for NCCL");
    // First in line: a round moves in a few blocks, and kernels that pack the next one would keep all of them
    // waiting.
    int lowest = 0, highest = 0;
    check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "asking for stream priorities");
    check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, highest), "making a stream for NCCL");
    for (cudaEvent_t& event : events_) {
      check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event for NCCL");
    }
    ncclUniqueId id{};
    std::string said;
    if (group.rank() == 0) {
      if (const ncclResult_t result = ncclGetUniqueId(&id); result != ncclSuccess) {
        fail_runtime(fmt::format("NCCL could not make an id: {}", ncclGetErrorString(result)));
      }
      said.assign(id.internal, sizeof(id.internal));
    }
    const std::vector<std::string> all = group.all_gather(said, deadline);
    std::memcpy(id.internal, all.front().data(), sizeof(id.internal));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    require(ncclCommInitRankConfig(&comm_, static_cast<int>(group.size()), id, static_cast<int>(group.rank()),
                                   &config),
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
    require(ncclGroupStart(), "beginning a round");
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
    require(ncclGroupEnd(), "queueing a round");
    queued(Deadline::after(kLongestQueueing), "queueing a round");
    check(cudaEventRecord(events_.at(slot), stream_), "marking a round's end");
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

  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  std::array<cudaEvent_t, kSlots> events_{};
};

}  // namespace

std::unique_ptr<transport::Exchange> make_exchange(transport::Group& group, int ordinal, Deadline deadline) {
  return std::make_unique<NcclExchange>(group, ordinal, deadline);
}

}  // namespace refit::nccl
